"""What topics are called that hold what is sought. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from string import Formatter

from bridge.model.versions.stored_version import ReadFilter
from sinks.kafka.encode import topic_part
from sinks.template import CORE, NOTHING, NOTICE

_ANYTHING = "[A-Za-z0-9._-]+"
_NOTICES = ReadFilter(group=NOTHING, version=NOTHING, plural=NOTICE, kind=NOTHING, namespace="")


def topics_for(
    template: str, cluster: str, sought: Iterable[ReadFilter], notice_topic: str | None = None
) -> re.Pattern[str]:
    """What the topics are called that hold these objects, and the notices."""
    notices = topics_of(template, cluster, (_NOTICES,)) if notice_topic is None else re.escape(notice_topic)
    return re.compile("|".join(dict.fromkeys((*_forms(template, cluster, sought), notices))))


def topics_of(template: str, cluster: str, sought: Iterable[ReadFilter]) -> str:
    """The same without the notices, as a pattern."""
    return "|".join(_forms(template, cluster, sought))


def _forms(template: str, cluster: str, sought: Iterable[ReadFilter]) -> dict[str, None]:
    parts = list(Formatter().parse(template))
    return dict.fromkeys(_form(parts, cluster, each) for each in sought)


def _form(parts: Sequence[tuple[str, str | None, str | None, str | None]], cluster: str, sought: ReadFilter) -> str:
    values = {
        "cluster": cluster,
        "group": CORE if sought.group == "" else sought.group,
        "version": sought.version,
        "resource": sought.plural,
        "kind": sought.kind,
        "namespace": NOTHING if sought.namespace == "" else sought.namespace,
    }
    form = ""
    for literal, name, _, _ in parts:
        form += re.escape(literal)
        if name is not None:
            value = values[name]
            form += _ANYTHING if value is None else re.escape(topic_part(value))
    return form
