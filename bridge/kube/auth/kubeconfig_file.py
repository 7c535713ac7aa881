"""Reads a kubeconfig file: its schema, and YAML with bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from bridge.kube.auth.credentials import reason_of
from bridge.kube.errors import CredentialsError

_LARGEST = 16 << 20
"""Bytes of a file: hundreds of clusters with their certificates."""
_DEEPEST = 64
"""Lists and mappings inside one another."""
_BOUND = "a bound of ours"


class Extension(msgspec.Struct):
    name: str
    extension: Any = None


class Cluster(msgspec.Struct, rename="kebab", frozen=True):
    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None
    disable_compression: bool = False
    extensions: list[Extension] | None = None


class EnvironmentVariable(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class Exec(msgspec.Struct, rename="camel", frozen=True):
    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[EnvironmentVariable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: str | None = None


class User(msgspec.Struct, rename="kebab", frozen=True):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    exec: Exec | None = None
    auth_provider: Any = None
    impersonate: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = None
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None

    def __repr__(self) -> str:
        return "User(…)"


class Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: Context


class KubeconfigFile(msgspec.Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = None


class _KubeconfigLoader(yaml.SafeLoader):
    """Reads every plain scalar but null as a string: a user may be called ``007`` or ``on``, and a token may be
    ``1e5``. msgspec converts strings where the schema has a boolean."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [each for each in resolvers if each[0] in {"tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"}]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    # Other tags are refused: PyYAML's error for a malformed !!int quotes the value, which may be a token.
    yaml_constructors = {  # noqa: RUF012
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in {"map", "seq", "str", "null"}
    }

    # Bounds apply during the scan: the cost of a bracket grows with the number of open brackets, and aliases may expand
    # to any size.

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        self._expect(self.flow_level < _DEEPEST, f"has more than {_DEEPEST} levels")
        super().fetch_flow_collection_start(token)

    def add_indent(self, column: int) -> bool:
        self._expect(len(self.indents) < _DEEPEST, f"has more than {_DEEPEST} levels")
        return super().add_indent(column)

    def fetch_alias(self) -> None:
        self._expect(False, "has an alias (*name), which is not supported,")

    def _expect(self, allowed: bool, otherwise: str) -> None:
        if not allowed:
            raise yaml.scanner.ScannerError(problem=otherwise, problem_mark=self.get_mark(), note=_BOUND)


def read_kubeconfig(path: Path) -> KubeconfigFile:
    """Reads a file. Raises CredentialsError for a file that is unreadable, malformed or larger than 16 MiB."""
    try:
        with path.open("rb") as opened:
            text = opened.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise CredentialsError(f"{path}: the file is larger than {_LARGEST >> 20} MiB: is this a kubeconfig?")
        content = yaml.load(text, _KubeconfigLoader)  # noqa: S506 (a SafeLoader)
        return msgspec.convert(content or {}, KubeconfigFile, strict=False)
    except OSError as error:
        raise CredentialsError(f"{path}: the kubeconfig cannot be read: {reason_of(error)}") from error
    except yaml.YAMLError as error:
        # PyYAML's message quotes the line, which may hold a token.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", "") if getattr(error, "note", "") is _BOUND else "is not YAML"
        raise CredentialsError(f"{path}: the kubeconfig {problem}{where}") from None
    except msgspec.ValidationError as error:
        raise CredentialsError(f"{path}: the kubeconfig cannot be used: {error}") from error
