"""The section ``cluster``: the API server, and the bridge's credentials for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from config.values import HOST, PORT, Matching, Section


def _why_no_server(url: str) -> str:
    if "@" in url:
        return "credentials do not belong into the address; use token_file"
    return "an address like https://10.0.0.1:6443 or http://127.0.0.1:8001 is expected"


Server: TypeAlias = Annotated[
    str,
    Matching(rf"https?://{HOST}(?::{PORT})?(?:/[^\x00-\x20\x7f?#@]*)?", _why_no_server),
    AfterValidator(lambda url: url.rstrip("/")),
]
ClusterName: TypeAlias = Annotated[
    str,
    Matching(
        "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?",
        "letters, digits, '-', '_' and '.' are expected, with a letter or a digit at both ends",
        longest=128,
    ),
]


class ClusterSettings(Section):
    """The API server, and the bridge's credentials for it."""

    name: ClusterName = Field(
        description="The cluster's name in every event (source: /clusters/<name>). Letters, digits, '-', '_' and '.'. "
        "Consumers identify objects by it: under another name, every object is a new object to them.",
        examples=["prod-eu1"],
    )
    kubeconfig: Path | None = Field(
        default=None,
        description="A kubeconfig file. Without it, and without context and server: the pod's own service account, "
        "else the files of KUBECONFIG, else ~/.kube/config.",
        examples=["~/.kube/config"],
    )
    context: str | None = Field(
        default=None,
        min_length=1,
        description="The context of the kubeconfig to use. Without it: its current-context.",
        examples=["prod-admin"],
    )
    server: Server | None = Field(
        default=None,
        description="The API server's address. Without kubeconfig and context, the bridge sends no credentials: right "
        "for `kubectl proxy` on http://127.0.0.1:8001. Beside kubeconfig or context it replaces their address.",
        examples=["http://127.0.0.1:8001"],
    )
    token_file: Path | None = Field(
        default=None,
        description="A file with the bearer token, in place of any other credentials. The bridge reads the file again "
        "when the file changes, and when the API server answers 401.",
        examples=["/run/secrets/token"],
    )
    ca_file: Path | None = Field(
        default=None,
        description="A file (PEM) with the certificate authorities that are trusted for the API server, in place of "
        "the kubeconfig's. Without either: the system's.",
        examples=["/run/secrets/ca.crt"],
    )
