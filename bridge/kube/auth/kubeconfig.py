"""Reads kubeconfig files, merges them by kubectl's rules, and chooses a context.

Each file is read with bounds on its size and its depth, because PyYAML's time and memory have none, into a schema of
the members that we use. A file that cannot be used raises CredentialsError, which quotes none of its content: any line
may hold a token.

https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/; client-go, tools/clientcmd.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from bridge.kube.auth.credentials import CredentialsError, reason_of

_LARGEST = 16 << 20
"""Bytes of a file: hundreds of clusters with their certificates."""
_DEEPEST = 64
"""Lists and mappings inside one another."""
_BOUND = "a bound of ours"

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


# ── The schema ────────────────────────────────────────────────────────────────


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


# ── Choosing a context ────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ChosenContext:
    """A cluster with the user's credentials for it. All paths are absolute."""

    origin: str
    """The source of the choice, for messages; ``whose_cluster`` and ``whose_user`` name the sources of its parts."""
    cluster: Cluster
    user: User = field(default=User(), repr=False)
    whose_cluster: str = ""
    whose_user: str = ""
    whose_authority: str = ""
    """The setting that names the certificate authority, if it overrides the cluster's."""
    kubeconfig: bool = False
    """A kubeconfig is the source, so the environment's proxies count too."""
    in_the_clear: bool = False
    """The user's token may be sent over plain HTTP. As with kubectl, a context's token may not."""
    files: tuple[Path, ...] = ()
    """The kubeconfig files, also those that do not exist yet."""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    files: tuple[Path, ...] = ()
    """The existing files."""
    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    users: Mapping[str, User] = field(default_factory=dict, repr=False)
    contexts: Mapping[str, Context] = field(default_factory=dict)
    current_context: str = ""

    def choose(self, name: str | None) -> ChosenContext:
        """The named context, or the current context for None. Raises CredentialsError if it is unknown or unset."""
        files = os.pathsep.join(map(str, self.files))
        if not (name or self.current_context):
            raise CredentialsError(
                f"{files}: no current-context is set: choose one of {_listed(self.contexts)} as cluster.context"
            )
        name = name or self.current_context
        context = _lookup("context", name, self.contexts, files)
        origin = f"{files}: context {name}"
        cluster = _lookup("cluster", context.cluster, self.clusters, origin)
        user = _lookup("user", context.user, self.users, origin) if context.user else User()
        # A context without a user means anonymous requests, as for kubectl.
        return ChosenContext(
            origin,
            cluster,
            user,
            f"{files}: cluster {context.cluster}",
            f"{files}: user {context.user}",
            kubeconfig=True,
        )


def _lookup(what: str, name: str, known: Mapping[str, T], where: str) -> T:
    if name not in known:
        raise CredentialsError(f"{where}: there is no {what} {name!r}; there is {_listed(known)}")
    return known[name]


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "") or "none"


# ── Reading and merging files ─────────────────────────────────────────────────


def default_paths(environ: Mapping[str, str]) -> list[Path]:
    """The files that KUBECONFIG names, or ~/.kube/config. They need not exist."""
    named = environ.get("KUBECONFIG", "")
    if named:
        return [Path(each) for each in dict.fromkeys(named.split(os.pathsep)) if each]
    # As in client-go, HOME counts before the system's list of users.
    return [Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"]


def load(paths: Iterable[Path]) -> Kubeconfig:
    """Reads and merges the files. For every name, and for current-context, the first file with it wins; missing files
    are skipped. Raises CredentialsError for a file that is unreadable, malformed or larger than 16 MiB."""
    files = [(path, read_kubeconfig(path)) for path in paths if path.exists()]
    clusters: dict[str, Cluster] = {}
    users: dict[str, User] = {}
    contexts: dict[str, Context] = {}
    current = ""
    for path, file in files:
        folder = path.absolute().parent
        for name, cluster in _by_name(path, "clusters", [(each.name, each.cluster) for each in file.clusters or ()]):
            clusters.setdefault(name, _located(cluster, folder, "certificate_authority"))
        for name, user in _by_name(path, "users", [(each.name, each.user or User()) for each in file.users or ()]):
            user = _located(user, folder, "client_certificate", "client_key", "token_file")
            users.setdefault(name, _with_located_command(user, folder))
        for name, context in _by_name(path, "contexts", [(each.name, each.context) for each in file.contexts or ()]):
            contexts.setdefault(name, context)
        current = current or file.current_context or ""
    return Kubeconfig(tuple(path for path, _ in files), clusters, users, contexts, current)


def _by_name(path: Path, what: str, found: Sequence[tuple[str, T]]) -> Sequence[tuple[str, T]]:
    names = [name for name, _ in found]
    # client-go refuses such a file, too, instead of choosing an entry.
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CredentialsError(f"{path}: {what} has more than one {', '.join(twice)}")
    return found


def _located(entry: S, folder: Path, *fields: str) -> S:
    """The entry with absolute paths: relative paths start from the folder of the kubeconfig that names them."""
    paths = {each: str(folder / value) for each in fields if (value := getattr(entry, each))}
    return msgspec.structs.replace(entry, **paths)


def _with_located_command(user: User, folder: Path) -> User:
    """A command with a slash is relative to the kubeconfig's folder; a bare command is looked up in PATH."""
    if user.exec is None or os.sep not in user.exec.command:
        return user
    return msgspec.structs.replace(user, exec=_located(user.exec, folder, "command"))


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
