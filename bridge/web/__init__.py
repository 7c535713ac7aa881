"""What a machine may ask the bridge over HTTP: /metrics, /healthz, /readyz."""

from bridge.web.server import WebServer

__all__ = ["WebServer"]
