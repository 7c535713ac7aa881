"""What is asked of a running bridge: by machines over HTTP (/metrics, /healthz, /readyz), by its operator over a file.

server, readiness            for machines; nothing can be changed there
connections, access          what clients can hold; who gets the details
admin, admin_client          for the operator: both ends of the socket
admin_socket, admin_wire     its file; what goes over it
"""

from bridge.admin.client import AdminClient
from bridge.admin.server import AdminServer
from bridge.web.server import WebServer

__all__ = ["AdminClient", "AdminServer", "WebServer"]
