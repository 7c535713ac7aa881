"""Knows the columns in which ``kubectl get`` shows a kind, makes the cells of an object, and writes objects as a Table,
the form in which kubectl asks for them (``Accept: application/json;as=Table;…``).

Built-in kinds have the columns of kube-apiserver's ``printers/internalversion``; a kind that is missing here has its
name and its age. A custom kind has its definition's ``additionalPrinterColumns``. Of their JSONPath, fields, indexes,
``[*]`` and filters by equality are read; another expression leaves its cells empty. A cell is the text that
kube-apiserver sends, ages included, so it is true for one moment. Whoever wrote the object, no path costs more than a
walk over it, and a value of an unexpected shape is shown as ``<invalid>``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeAlias

from bridge.playground.http.errors import bad_request, decode, encode
from bridge.playground.objects.catalogue import Kind, PrinterColumn
from bridge.playground.objects.objects import METADATA, Manifest, event_in_core

Cell: TypeAlias = str | int | float | bool | None
_NONE, _UNSET, _UNKNOWN, _INVALID = "<none>", "<unset>", "<unknown>", "<invalid>"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a kind in a version."""

    columns: tuple[PrinterColumn, ...]
    _cells: Callable[[_Shown], list[Cell]]

    def cells(self, manifest: Mapping[str, Any], now: datetime) -> list[Cell]:
        """A cell for each column."""
        shown = _Shown(manifest, now)
        try:
            return self._cells(shown)
        except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError):
            return [shown.name if column.name == "Name" else _INVALID for column in self.columns]


def columns_of(kind: Kind, version: str) -> Columns:
    """The columns of a kind that is served in this version."""
    if kind.custom:
        return _custom(kind.columns.get(version) or (_CUSTOM_AGE,))
    return _BUILT_IN.get(kind.name, _NAME_AND_AGE)


def human_duration(seconds: float) -> str:
    """A duration in a few digits, as apimachinery's ``HumanDuration`` has it: ``95s``, ``5m2s``, ``3h``, ``2d4h``."""
    if seconds < 0:
        return "0s" if seconds > -2 else _INVALID  # Clocks differ a little.
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if whole < 120:
        return f"{whole}s"
    if minutes < 180:
        return _units(minutes, "m", whole % 60 if minutes < 10 else 0, "s")
    if hours < 48:
        return _units(hours, "h", minutes % 60 if hours < 8 else 0, "m")
    if days < 730:
        return _units(days, "d", hours % 24 if days < 8 else 0, "h")
    return _units(days // 365, "y", days % 365 if days < 8 * 365 else 0, "d")


def _units(count: int, unit: str, rest: int, smaller: str) -> str:
    return f"{count}{unit}{rest}{smaller}" if rest else f"{count}{unit}"


@dataclass(frozen=True, slots=True)
class _Shown:
    """An object, read for its cells. A missing member is what Go has for it: an empty text, 0, no items."""

    manifest: Mapping[str, Any]
    now: datetime

    def at(self, path: str, missing: Any = None) -> Any:
        """``missing`` where there is no such member. Names without dots are parts of the path."""
        value: Any = self.manifest
        for name in path.split("."):
            if value is None:
                return missing
            value = value.get(name)
        return missing if value is None else value

    def since(self, path: str) -> str:
        return self.age_of(self.at(path))

    def age_of(self, time: str | None) -> str:
        return _UNKNOWN if not time else human_duration((self.now - datetime.fromisoformat(time)).total_seconds())

    @property
    def name(self) -> str:
        metadata = self.manifest.get("metadata")
        return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""

    @property
    def is_deleted(self) -> bool:
        return self.at("metadata.deletionTimestamp") is not None

    def condition(self, name: str) -> str:
        """The status of a condition; "" without it."""
        return next((each["status"] for each in self.at("status.conditions", []) if each["type"] == name), "")


# ── Columns of custom kinds ──────────────────────────────────────────────────


_CUSTOM_AGE = PrinterColumn("Age", "date", path=".metadata.creationTimestamp")


def _custom(columns: tuple[PrinterColumn, ...]) -> Columns:
    paths = [(each.type, _json_path(each.path)) for each in columns]

    def cells(shown: _Shown) -> list[Cell]:
        return [shown.name, *(_json_cell(type_, shown, path) for type_, path in paths)]

    return Columns((_NAME, *columns), cells)


_STEP = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\*])++)"""
    r"""|\[(?P<index>-?[0-9]{1,9}+)\]"""
    r"""|(?P<every>\[\*\]|\.\*)"""
    r"""|\[(?P<quoted>'(?:\\.|[^'\\])*+'|"(?:\\.|[^"\\])*+")\]"""
    r"""|\[\?\(\s*+@(?P<path>(?:\.(?:\\.|[^.\[\]\\*=!<>\s'"()])++)++)\s*+(?P<equal>[=!]=)\s*+"""
    r"""(?P<value>'[^']*+'|"[^"]*+"|[\w.-]++)\s*+\)\]"""
)
_Walk: TypeAlias = Callable[[list[Any]], list[Any]]


def _json_path(path: str) -> list[_Walk]:
    """The steps of a path, each from all values to the next ones: to none, for an expression that is not read."""
    steps: list[_Walk] = []
    at = 0
    while step := _STEP.match(path, at):
        steps.append(_walk(step))
        at = step.end()
    return steps if at == len(path) else [lambda _: []]


def _walk(step: re.Match[str]) -> _Walk:
    if name := step["name"] or (step["quoted"] or "")[1:-1]:
        member = re.sub(r"\\(.)", r"\1", name)
        return lambda values: [each[member] for each in values if isinstance(each, dict) and member in each]
    if step["index"]:
        index = int(step["index"])
        return lambda values: [
            each[index] for each in values if isinstance(each, list) and -len(each) <= index < len(each)
        ]
    if step["every"]:
        return lambda values: [inner for each in values for inner in _inside(each)]
    path, wanted, equal = _json_path(step["path"]), step["value"].strip("'\""), step["equal"] == "=="
    return lambda values: [
        item
        for each in values
        for item in _inside(each)
        if (found := _first(item, path)) is not None and (_printed(found) == wanted) is equal
    ]


def _inside(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()


def _first(value: Any, path: list[_Walk]) -> Any:
    """The first value that the path finds; None without any."""
    values = [value]
    for walk in path:
        values = walk(values)
    return values[0] if values else None


def _json_cell(type_: str, shown: _Shown, path: list[_Walk]) -> Cell:
    """The first value that the path finds, if it has the column's type."""
    value = _first(shown.manifest, path)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match type_:
        case "string":
            return None if value is None else _printed(value)
        case "integer":
            return int(value) if number else None
        case "number":
            return value if number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date" if isinstance(value, str):
            try:
                return shown.age_of(value)
            except (TypeError, ValueError):  # A time without an offset is none.
                return _INVALID
    return None


def _printed(value: Any) -> str:
    """As Go's JSONPath prints it."""
    return value if isinstance(value, str) else encode(value, sort=True).decode()


# ── Columns of built-in kinds ────────────────────────────────────────────────

_NAME = PrinterColumn("Name", format="name")
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_ALIKE = {"Name": "Name=metadata.name", "Age": "Age=since metadata.creationTimestamp"}
_COLUMN = re.compile(
    r"(?P<wide>\+?)(?P<name>[^:=|]+)(:(?P<type>\w+))?(=((?P<how>\w+) )?(?P<path>[\w.]+))?(\|(?P<otherwise>.+))?"
)


class _Column:
    """Of ``Ready``, ``+Node=spec.nodeName|<none>`` or ``Desired:integer=number spec.replicas``: its name, with a plus
    if ``-o wide`` alone shows it; its type; how its cells are read, and where; and what stands in an empty one."""

    def __init__(self, text: str) -> None:
        found = _COLUMN.fullmatch(_ALIKE.get(text, text))
        if found is None:
            raise ValueError(f"no column: {text}")
        form = "name" if found["name"] == "Name" else ""
        self.shown = PrinterColumn(found["name"], found["type"] or "string", form, priority=len(found["wide"]))
        self._read = _HOW[found["how"] or "text"]
        self._path = found["path"]
        self._otherwise = found["otherwise"]

    def cell(self, shown: _Shown, made: Iterator[Cell]) -> Cell:
        """``made``: gives the cells of columns that are nowhere to be read."""
        found = self._read(shown, self._path) if self._path else next(made)
        return found or self._otherwise if self._otherwise else found


def _columns(texts: str, cells: Callable[[_Shown], Iterable[Cell]] = lambda _: ()) -> Columns:
    """``texts``: see _Column. ``cells``: of columns that are nowhere to be read, in their order."""
    columns = [_Column(each) for each in texts.split(", ")]

    def made(shown: _Shown) -> list[Cell]:
        rest = iter(cells(shown))
        return [each.cell(shown, rest) for each in columns]

    return Columns(tuple(each.shown for each in columns), made)


def _pod(pod: _Shown) -> list[Cell]:
    gates = pod.at("spec.readinessGates", [])
    passed = sum(pod.condition(gate["conditionType"]) == "True" for gate in gates)
    address = next((each.get("ip") for each in pod.at("status.podIPs", [])), "")
    return [*_pod_state(pod), address, f"{passed}/{len(gates)}" if gates else ""]


def _pod_state(pod: _Shown) -> tuple[str, str, str]:
    """Ready containers, the status in a word, and restarts: ``printPod``."""
    sidecars = {each["name"] for each in pod.at("spec.initContainers", []) if each.get("restartPolicy") == "Always"}
    gated = any(each.get("reason") == "SchedulingGated" for each in pod.at("status.conditions", []))
    status = "SchedulingGated" if gated else pod.at("status.reason") or pod.at("status.phase", "")
    opening, ready = _init_state(pod, sidecars)
    counted = pod.at("status.initContainerStatuses", [])
    if not opening or pod.condition("Initialized") == "True":
        statuses = pod.at("status.containerStatuses", [])
        counted = [*statuses, *(each for each in counted if each["name"] in sidecars)]
        ready += sum(_is_running(each) for each in statuses)
        status = _container_state(pod, statuses) or status
    else:
        status = opening
    if pod.is_deleted and pod.at("status.reason") == "NodeLost":
        status = "Unknown"
    elif pod.is_deleted and pod.at("status.phase") not in ("Succeeded", "Failed"):
        status = "Terminating"
    restarts = sum(each.get("restartCount") or 0 for each in counted)
    ended = ((each.get("lastState") or {}).get("terminated") or {} for each in counted)
    last = max((each.get("finishedAt") or "" for each in ended), default="")
    total = len(pod.at("spec.containers", [])) + len(sidecars)
    return f"{ready}/{total}", status, f"{restarts} ({pod.age_of(last)} ago)" if restarts and last else str(restarts)


def _init_state(pod: _Shown, sidecars: set[str]) -> tuple[str, int]:
    """What holds the pod in its initialization ("" for nothing), and the sidecars that are ready."""
    ready = 0
    for number, each in enumerate(pod.at("status.initContainerStatuses", [])):
        state = each.get("state") or {}
        ended = state.get("terminated")
        waits = (state.get("waiting") or {}).get("reason") or ""
        if ended is not None and not ended.get("exitCode"):
            continue
        if each["name"] in sidecars and each.get("started"):
            ready += bool(each.get("ready"))
        elif ended is not None:
            return f"Init:{_end(ended)}", ready
        elif waits and waits != "PodInitializing":
            return f"Init:{waits}", ready
        else:
            return f"Init:{number}/{len(pod.at('spec.initContainers', []))}", ready
    return "", ready


def _container_state(pod: _Shown, statuses: list[Any]) -> str:
    """The state of the first container that has one to tell; "" without any."""
    told = failed = ""
    for each in reversed(statuses):
        state = each.get("state") or {}
        ended = state.get("terminated")
        if reason := (state.get("waiting") or {}).get("reason"):
            told = reason
        elif ended is not None:
            told = _end(ended)
            failed = told if ended.get("exitCode") else failed
    running = any(_is_running(each) for each in statuses)
    if told != "Completed":
        return told
    if running and pod.condition("Ready") == "True":
        return "Running"
    return failed or ("NotReady" if running else told)


def _is_running(status: Any) -> bool:
    state = status.get("state") or {}
    waits = (state.get("waiting") or {}).get("reason")
    return bool(status.get("ready") and "running" in state and not waits and state.get("terminated") is None)


def _end(terminated: Any) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode') or 0}"


def _job(job: _Shown) -> list[Cell]:
    done, parallel = job.at("status.succeeded", 0), job.at("spec.parallelism", 0)
    wanted = job.at("spec.completions")
    completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    began, ended = job.at("status.startTime"), job.at("status.completionTime")
    duration = job.age_of(began) if began else ""
    if began and ended:
        duration = human_duration((datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds())
    reached = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"]
    states = [each for each in reached if job.condition(each) == "True"]
    if job.is_deleted and not {"Complete", "Failed"} & set(states):
        states = ["Terminating"]
    return [states[0] if states else "Running", completions if wanted is None else f"{done}/{wanted}", duration]


def _service(service: _Shown) -> list[Cell]:
    external = ",".join(service.at("spec.externalIPs", []))
    match service.at("spec.type"):
        case "ClusterIP" | "NodePort":
            outside = external or _NONE
        case "LoadBalancer":
            outside = ",".join(filter(None, (_addresses(service), external))) or "<pending>"
        case "ExternalName":
            outside = service.at("spec.externalName", "")
        case _:
            outside = _UNKNOWN
    ports = ",".join(map(_port, service.at("spec.ports", [])))
    return [(service.at("spec.clusterIPs") or [_NONE])[0], outside, ports]


def _port(port: Any) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port['protocol']}"


def _addresses(balanced: _Shown) -> str:
    found = balanced.at("status.loadBalancer.ingress", [])
    return ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in found} - {""}))


def _ingress(ingress: _Shown) -> list[Cell]:
    rules = ingress.at("spec.rules", [])
    hosts = ",".join(each["host"] for each in rules[:3] if each.get("host")) or "*"
    if len(rules) > 3 and hosts != "*":
        hosts = f"{hosts} + {len(rules) - 3} more..."
    return [hosts, _addresses(ingress), "80, 443" if ingress.at("spec.tls") else "80"]


def _node(node: _Shown) -> list[Cell]:
    ready = node.condition("Ready")
    states = ["Unknown" if not ready else "Ready" if ready == "True" else "NotReady"]
    if node.at("spec.unschedulable"):
        states.append("SchedulingDisabled")
    prefix, labels = "node-role.kubernetes.io/", node.at("metadata.labels", {})
    roles = {name.removeprefix(prefix) for name in labels if name.startswith(prefix)}
    roles |= {labels.get("kubernetes.io/role") or ""}
    addresses = {each["type"]: each["address"] for each in reversed(node.at("status.addresses", []))}
    architecture = node.at("status.nodeInfo.architecture")
    kernel = node.at("status.nodeInfo.kernelVersion") or _UNKNOWN
    return [
        ",".join(states),
        ",".join(sorted(roles - {""})),
        addresses.get("InternalIP", ""),
        addresses.get("ExternalIP", ""),
        f"{kernel} ({architecture})" if architecture else kernel,
    ]


def _event(shown: _Shown) -> list[Cell]:
    event = _Shown(event_in_core(shown.manifest), shown.now)
    first = event.age_of(event.at("firstTimestamp") or event.at("eventTime"))
    last = event.since("lastTimestamp") if event.at("lastTimestamp") else first
    count = event.at("count") or 1
    if event.at("series"):
        last, count = event.since("series.lastObservedTime"), event.at("series.count", 0)
    kind, name = event.at("involvedObject.kind", "").lower(), event.at("involvedObject.name", "")
    target = "/".join(filter(None, (kind, name)))
    component = event.at("source.component") or event.at("reportingComponent", "")
    instance = event.at("source.host") or event.at("reportingInstance", "")
    source = f"{component}, {instance}" if instance else component
    part, message = event.at("involvedObject.fieldPath", ""), event.at("message", "").strip()
    return [last, target, part, source, message, first, count]


def _volume(volume: _Shown) -> list[Cell]:
    claim = volume.at("spec.claimRef", {})
    return [f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else "", _class(volume)]


def _claim(claim: _Shown) -> list[Cell]:
    if not claim.at("spec.volumeName"):
        return ["", "", _class(claim)]
    return [claim.at("status.capacity.storage", "0"), _modes(claim.at("status.accessModes", [])), _class(claim)]


def _class(claimed: _Shown) -> str:
    annotated = claimed.at("metadata.annotations", {}).get("volume.beta.kubernetes.io/storage-class")
    return str(annotated or claimed.at("spec.storageClassName", ""))


def _modes(modes: list[str]) -> str:
    return ",".join(short for long, short in _MODES.items() if long in modes)


def _cron(cron: _Shown) -> list[Cell]:
    last = cron.since("status.lastScheduleTime") if cron.at("status.lastScheduleTime") else _NONE
    return [str(bool(cron.at("spec.suspend"))), last]


def _ready(owner: _Shown) -> list[Cell]:
    return [f"{owner.at('status.readyReplicas', 0)}/{owner.at('spec.replicas', 0)}"]


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items())) or _NONE


def _selector(selector: Mapping[str, Any]) -> str:
    """A LabelSelector in the syntax of a query."""
    terms = [(name, f"{name}={value}") for name, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        key, values = each["key"], ",".join(sorted(each.get("values") or ()))
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        terms.append((key, words.get(each["operator"], f"!{key}")))
    return ",".join(text for _, text in sorted(terms, key=itemgetter(0))) or _NONE


_HOW: Mapping[str, Callable[[_Shown, str], Cell]] = {
    "text": lambda shown, path: shown.at(path, ""),
    "number": lambda shown, path: shown.at(path, 0),
    "since": _Shown.since,
    "count": lambda shown, path: len(shown.at(path, [])),
    "phase": lambda shown, path: "Terminating" if shown.is_deleted else shown.at(path, ""),
    "modes": lambda shown, path: _modes(shown.at(path, [])),
    "labels": lambda shown, path: _labels(shown.at(path, {})),
    "selector": lambda shown, path: _selector(shown.at(path, {})),
    "names": lambda shown, path: ",".join(each["name"] for each in shown.at(path, [])),
    "images": lambda shown, path: ",".join(each.get("image") or "" for each in shown.at(path, [])),
}
"""How cells are read."""
_CONTAINERS = "+Containers=names spec.template.spec.containers, +Images=images spec.template.spec.containers"
_OWNER = f"Age, {_CONTAINERS}, +Selector=selector spec.selector"
"""The last columns of what makes pods."""
_NAME_AND_AGE = _columns("Name, Age")
_CREATED = _columns("Name, Created At:date=metadata.creationTimestamp")
_EVENTS = _columns(
    "Last Seen, Type=type, Reason=reason, Object, +Subobject, +Source, Message, +First Seen, +Count, "
    "+Name=metadata.name",
    _event,
)

_BUILT_IN: Mapping[str, Columns] = {
    "configmaps": _columns("Name, Data, Age", lambda map_: [len(map_.at("data", {})) + len(map_.at("binaryData", {}))]),
    "events": _EVENTS,
    "limitranges": _CREATED,
    "namespaces": _columns("Name, Status=status.phase, Age"),
    "nodes": _columns(
        "Name, Status, Roles|<none>, Age, Version=status.nodeInfo.kubeletVersion, +Internal-IP|<none>, "
        "+External-IP|<none>, +OS-Image=status.nodeInfo.osImage|<unknown>, +Kernel-Version, "
        "+Container-Runtime=status.nodeInfo.containerRuntimeVersion|<unknown>",
        _node,
    ),
    "persistentvolumeclaims": _columns(
        "Name, Status=phase status.phase, Volume=spec.volumeName, Capacity, Access Modes, StorageClass, "
        "VolumeAttributesClass=spec.volumeAttributesClassName|<unset>, Age, +VolumeMode=spec.volumeMode|<unset>",
        _claim,
    ),
    "persistentvolumes": _columns(
        "Name, Capacity=spec.capacity.storage|0, Access Modes=modes spec.accessModes, "
        "Reclaim Policy=spec.persistentVolumeReclaimPolicy, Status=phase status.phase, Claim, StorageClass, "
        "VolumeAttributesClass=spec.volumeAttributesClassName|<unset>, Reason=status.reason, Age, "
        "+VolumeMode=spec.volumeMode|<unset>",
        _volume,
    ),
    "pods": _columns(
        "Name, Ready, Status, Restarts, Age, +IP|<none>, +Node=spec.nodeName|<none>, "
        "+Nominated Node=status.nominatedNodeName|<none>, +Readiness Gates|<none>",
        _pod,
    ),
    "secrets": _columns("Name, Type=type, Data=count data, Age"),
    "services": _columns(
        "Name, Type=spec.type, Cluster-IP, External-IP, Port(s)|<none>, Age, +Selector=labels spec.selector", _service
    ),
    "daemonsets.apps": _columns(
        "Name, Desired:integer=number status.desiredNumberScheduled, "
        "Current:integer=number status.currentNumberScheduled, Ready:integer=number status.numberReady, "
        "Up-to-date:integer=number status.updatedNumberScheduled, Available:integer=number status.numberAvailable, "
        f"Node Selector=labels spec.template.spec.nodeSelector, {_OWNER}"
    ),
    "deployments.apps": _columns(
        f"Name, Ready, Up-to-date=number status.updatedReplicas, Available=number status.availableReplicas, {_OWNER}",
        _ready,
    ),
    "replicasets.apps": _columns(
        "Name, Desired:integer=number spec.replicas, Current:integer=number status.replicas, "
        f"Ready:integer=number status.readyReplicas, {_OWNER}"
    ),
    "statefulsets.apps": _columns(f"Name, Ready, Age, {_CONTAINERS}", _ready),
    "cronjobs.batch": _columns(
        "Name, Schedule=spec.schedule, Timezone=spec.timeZone|<none>, Suspend:boolean, "
        f"Active:integer=count status.active, Last Schedule, {_OWNER.replace(' spec', ' spec.jobTemplate.spec')}",
        _cron,
    ),
    "jobs.batch": _columns(f"Name, Status, Completions, Duration, {_OWNER}", _job),
    "ingresses.networking.k8s.io": _columns(
        "Name, Class=spec.ingressClassName|<none>, Hosts, Address, Ports, Age", _ingress
    ),
    "networkpolicies.networking.k8s.io": _columns("Name, Pod-Selector=selector spec.podSelector, Age"),
    "clusterroles.rbac.authorization.k8s.io": _CREATED,
    "roles.rbac.authorization.k8s.io": _CREATED,
    "customresourcedefinitions.apiextensions.k8s.io": _CREATED,
    "events.events.k8s.io": _EVENTS,
    "leases.coordination.k8s.io": _columns("Name, Holder=spec.holderIdentity, Age"),
}


# ── Tables ───────────────────────────────────────────────────────────────────

_ENDS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


@dataclass(frozen=True, slots=True)
class TableForm:
    """The form of the answers to one request."""

    api_version: str
    """``meta.k8s.io/v1`` or ``meta.k8s.io/v1beta1``."""
    kind: Kind
    columns: Columns
    include: str
    """What a row has of its object: ``Metadata``, ``None`` or ``Object``."""
    now: Callable[[], datetime]
    """For ages."""

    @classmethod
    def asked(
        cls, api_version: str, kind: Kind, version: str, query: Mapping[str, str], now: Callable[[], datetime]
    ) -> TableForm:
        """Raises StatusError (400) for an unknown ``includeObject``."""
        include = query.get("includeObject") or "Metadata"
        if include not in ("Metadata", "None", "Object"):
            why = f"Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
            raise bad_request(f"Unable to convert to Table as requested: includeObject: {why}")
        return cls(api_version, kind, columns_of(kind, version), include, now)

    def of(self, manifests: Iterable[Manifest], metadata: Mapping[str, Any], *, headers: bool = True) -> bytes:
        """The objects of a list whose ``metadata`` these are."""
        now = self.now()
        table = {
            "kind": "Table",
            "apiVersion": self.api_version,
            "metadata": metadata,
            "columnDefinitions": [_definition(each) for each in self.columns.columns] if headers else None,
            "rows": [self._row(each, now) for each in manifests],
        }
        return encode(table)

    def of_one(self, body: bytes, *, headers: bool = True) -> bytes:
        """A single object; watches send the headers with the first one alone."""
        manifest = decode(body)
        return self.of([manifest], {"resourceVersion": manifest["metadata"]["resourceVersion"]}, headers=headers)

    def _row(self, manifest: Manifest, now: datetime) -> dict[str, Any]:
        row: dict[str, Any] = {"cells": self.columns.cells(manifest, now)}
        status = manifest.get("status") if self.kind.name == "pods" else None
        phase = str(status.get("phase")) if isinstance(status, dict) else ""
        if said := _ENDS.get(phase):
            row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": said}]
        match self.include:
            case "None":
                row["object"] = None
            case "Object":
                row["object"] = manifest
            case _:
                known = manifest["metadata"]
                metadata = {name: known[name] for name in METADATA if name in known}
                row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": self.api_version, "metadata": metadata}
        return row


def _definition(column: PrinterColumn) -> dict[str, Any]:
    """A TableColumnDefinition. The real server describes each column; kubectl prints no description."""
    named = {"name": column.name, "type": column.type, "format": column.format}
    return {**named, "description": "", "priority": column.priority}
