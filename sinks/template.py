"""Names of topics and subjects, made of the attributes of a record: ``k8s.{cluster}.{resource}``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from string import Formatter

from bridge.model.formats.object_paths import ABSENT, CORE
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource

PLACEHOLDERS = ("cluster", "group", "version", "resource", "kind", "namespace", "name")
"""``group`` is ``core`` for the core group, ``resource`` is the plural (``deployments``)."""

DESCRIPTIONS = {
    "group": "The API group; core for the core group.",
    "version": "The version of the API group.",
    "resource": "The plural of the resource, such as deployments.",
    "kind": "The kind, such as Deployment.",
    "namespace": "The namespace of the object; _ for an object without a namespace.",
    "name": "The name of the object.",
}
"""The placeholders that stay in the name for all records of a cluster."""

NOTICE = "notice"
"""The resource of a notice (a gap, the edge of a snapshot), which is about objects of any resource; every other
placeholder but the cluster is absent. All notices have the same name, so that they are in the same topic or subject,
and in order."""


def check_template(text: str, allowed: Collection[str] = PLACEHOLDERS) -> str:
    """Returns the text. Raises ValueError, which names the allowed placeholders, when the text is no template of
    them."""
    offer = f"allowed are {', '.join(f'{{{name}}}' for name in allowed)}"
    try:
        parts = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a template ({error}); {offer}") from error
    if not text:
        raise ValueError("a name cannot be empty")
    for literal, name, spec, conversion in parts:
        if "{" in literal or "}" in literal:
            raise ValueError(f"{text!r} has a brace that belongs to no placeholder; {offer}")
        if name is not None and (name not in allowed or spec or conversion):
            found = f"{{{name}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}"
            raise ValueError(f"{text!r} has the unknown placeholder {found}; {offer}")
    return text


def template_pattern(letter: str, allowed: Collection[str] = PLACEHOLDERS) -> str:
    """A regular expression that matches templates. ``letter``: a set of characters, for the text between
    placeholders."""
    return rf"(?:{letter}|\{{(?:{'|'.join(allowed)})\}})+"


class Template:
    """Renders names for the records of a cluster. Parts that depend on the resource alone are rendered once per
    resource.

    ``escape`` turns any value into characters that the destination allows in a name. Its result has no braces, because
    the result is formatted again.
    """

    def __init__(self, text: str, cluster: str, escape: Callable[[str], str]) -> None:
        self._text = text
        self._cluster = cluster
        self._escape = escape
        self.is_per_object = "{namespace}" in text or "{name}" in text
        """False if all records of a resource have one name."""
        self._by_resource: dict[Resource, str] = {}
        self._notice = self._fill(group=ABSENT, version=ABSENT, resource=NOTICE, kind=ABSENT).format(
            namespace=ABSENT, name=ABSENT
        )

    def render(self, record: Record) -> str:
        if not isinstance(record, Delta):
            return self._notice
        text = self._by_resource.get(record.resource)
        if text is None:
            text = self._by_resource[record.resource] = self._for_resource(record.resource)
        if not self.is_per_object:
            return text
        namespace, _, name = record.key.rpartition("/")
        return text.format(namespace=self._escape(namespace) if namespace else ABSENT, name=self._escape(name))

    def names(self, resources: Iterable[Resource]) -> list[str]:
        """Names for the records of these resources, then the name for notices. Only the name for notices if the
        template has ``{namespace}`` or ``{name}``, which depend on objects."""
        return [self._notice] if self.is_per_object else [*map(self._for_resource, resources), self._notice]

    @property
    def needs_namespace(self) -> bool:
        return "{namespace}" in self._text

    def of_namespace(self, resource: Resource, namespace: str | None) -> str:
        """The name for all objects of a resource in a namespace. For templates without ``{name}``."""
        text = self._by_resource.get(resource) or self._for_resource(resource)
        return text.format(namespace=self._escape(namespace) if namespace else ABSENT) if self.is_per_object else text

    def wildcard(self, anything: str) -> str:
        """The name with ``anything`` in place of every placeholder but ``{cluster}``."""
        free = dict.fromkeys(("group", "version", "resource", "kind", "namespace", "name"), anything)
        return self._text.format(cluster=self._escape(self._cluster), **free)

    def of_cluster(self) -> str:
        """The name for all records of the cluster, with the other placeholders."""
        return self._text.format(cluster=self._escape(self._cluster), **{name: f"{{{name}}}" for name in DESCRIPTIONS})

    def of_notices(self) -> str:
        """The name for notices."""
        return self._notice

    def parameters(self) -> dict[str, str]:
        """The placeholders of ``of_cluster``, with descriptions."""
        return {name: text for name, text in DESCRIPTIONS.items() if f"{{{name}}}" in self._text}

    def _for_resource(self, resource: Resource) -> str:
        return self._fill(
            group=self._escape(resource.group) if resource.group else CORE,
            version=self._escape(resource.version),
            resource=self._escape(resource.plural),
            kind=self._escape(resource.kind),
        )

    def _fill(self, **values: str) -> str:
        # These two are filled in for each record: here each is replaced by itself.
        later = {"namespace": "{namespace}", "name": "{name}"}
        return self._text.format(cluster=self._escape(self._cluster), **values, **later)
