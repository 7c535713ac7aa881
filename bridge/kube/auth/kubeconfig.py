"""Merges kubeconfig files by kubectl's rules, and chooses a context.

https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/; client-go, tools/clientcmd.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from bridge.kube.auth.kubeconfig_file import Cluster, Context, User, read_kubeconfig
from bridge.kube.errors import CredentialsError


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


T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


def _by_name(path: Path, what: str, found: Sequence[tuple[str, T]]) -> Sequence[tuple[str, T]]:
    names = [name for name, _ in found]
    # client-go refuses such a file, too, instead of choosing an entry.
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CredentialsError(f"{path}: {what} has more than one {', '.join(twice)}")
    return found


def _lookup(what: str, name: str, known: Mapping[str, T], where: str) -> T:
    if name not in known:
        raise CredentialsError(f"{where}: there is no {what} {name!r}; there is {_listed(known)}")
    return known[name]


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "") or "none"


def _located(entry: S, folder: Path, *fields: str) -> S:
    """The entry with absolute paths: relative paths start from the folder of the kubeconfig that names them."""
    paths = {each: str(folder / value) for each in fields if (value := getattr(entry, each))}
    return msgspec.structs.replace(entry, **paths)


def _with_located_command(user: User, folder: Path) -> User:
    """A command with a slash is relative to the kubeconfig's folder; a bare command is looked up in PATH."""
    if user.exec is None or os.sep not in user.exec.command:
        return user
    return msgspec.structs.replace(user, exec=_located(user.exec, folder, "command"))
