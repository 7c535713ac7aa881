"""Knows the columns in which ``kubectl get`` shows a kind, and makes the cells of an object.

Built-in kinds have the columns of kube-apiserver's ``printers/internalversion``; a kind that is missing here has its
name and its age. A custom kind has its definition's ``additionalPrinterColumns``. Of their JSONPath, fields, indexes,
``[*]`` and filters by equality are read; another expression leaves its cells empty. A cell is the text that
kube-apiserver sends, ages included, so it is true for one moment. Whoever wrote the object, no path costs more than a
walk over it, and a value of an unexpected shape is shown as ``<invalid>``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, TypeAlias

from bridge.playground.http.errors import encode
from bridge.playground.objects.catalogue import Kind, PrinterColumn

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
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
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


class _Shown:
    """An object, read for its cells. A missing member is what Go has for it: an empty text, 0, no items."""

    __slots__ = ("manifest", "now")

    def __init__(self, manifest: Mapping[str, Any], now: datetime) -> None:
        self.manifest = manifest
        self.now = now

    def at(self, path: str) -> Any:
        """None where a member is missing. Names without dots are parts of the path."""
        value: Any = self.manifest
        for name in path.split("."):
            if value is None:
                return None
            value = value.get(name)
        return value

    def text(self, path: str, otherwise: str = "") -> str:
        return self.at(path) or otherwise

    def number(self, path: str) -> int:
        return self.at(path) or 0

    def items(self, path: str) -> list[Any]:
        return self.at(path) or []

    def map(self, path: str) -> dict[str, Any]:
        return self.at(path) or {}

    def since(self, path: str) -> str:
        return self.age_of(self.at(path))

    def age_of(self, time: str | None) -> str:
        return _UNKNOWN if not time else human_duration((self.now - _moment(time)).total_seconds())

    @property
    def name(self) -> str:
        return self.text("metadata.name")

    @property
    def age(self) -> str:
        return self.since("metadata.creationTimestamp")

    @property
    def is_deleted(self) -> bool:
        return self.at("metadata.deletionTimestamp") is not None

    def containers(self, spec: str = "spec") -> list[Cell]:
        """Names and images, of a pod's template."""
        found = self.items(f"{spec}.template.spec.containers")
        return [",".join(each["name"] for each in found), ",".join(each.get("image") or "" for each in found)]

    def condition(self, name: str) -> str:
        """The status of a condition; "" without it."""
        return next((each["status"] for each in self.items("status.conditions") if each["type"] == name), "")


def _moment(time: str) -> datetime:
    found = datetime.fromisoformat(time)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# ── Columns of custom kinds ──────────────────────────────────────────────────


_CUSTOM_AGE = PrinterColumn("Age", "date", path=".metadata.creationTimestamp")


def _custom(columns: tuple[PrinterColumn, ...]) -> Columns:
    paths = [(each.type, _json_path(each.path)) for each in columns]

    def cells(shown: _Shown) -> list[Cell]:
        return [shown.name, *(_json_cell(type_, shown, path) for type_, path in paths)]

    return Columns((_NAME, *columns), cells)


_STEP = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\*])++)"""
    r"""|\[(?P<index>-?[0-9]++)\]"""
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
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return [lambda _: []]
        steps.append(_walk(step))
        at = step.end()
    return steps


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
    inner = [re.sub(r"\\(.)", r"\1", name) for name in re.split(r"(?<!\\)\.", step["path"])[1:]]
    wanted, equal = step["value"].strip("'\""), step["equal"] == "=="
    return lambda values: [
        item
        for each in values
        for item in _inside(each)
        if (found := _member(item, inner)) is not None and (_printed(found) == wanted) is equal
    ]


def _inside(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()


def _member(value: Any, names: list[str]) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _json_cell(type_: str, shown: _Shown, path: list[_Walk]) -> Cell:
    """The first value that the path finds, if it has the column's type."""
    values: list[Any] = [shown.manifest]
    for walk in path:
        values = walk(values)
    value: Any = values[0] if values else None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match type_:
        case "string":
            return _printed(value) if values else None
        case "integer":
            return int(value) if number else None
        case "number":
            return value if number else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date" if isinstance(value, str):
            try:
                return shown.age_of(value)
            except ValueError:
                return _INVALID
    return None


def _printed(value: Any) -> str:
    """As Go's JSONPath prints it."""
    return value if isinstance(value, str) else encode(value, sort=True).decode()


# ── Columns of built-in kinds ────────────────────────────────────────────────

_NAME = PrinterColumn("Name", format="name")
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _defined(names: str) -> tuple[PrinterColumn, ...]:
    """Of ``Name, Ready, Desired:integer, +IP``: a plus marks those of ``-o wide``."""
    columns = []
    for each in names.split(", "):
        name, _, type_ = each.lstrip("+").partition(":")
        form = "name" if name == "Name" else ""
        columns.append(PrinterColumn(name, type_ or "string", form, priority=int(each.startswith("+"))))
    return tuple(columns)


def _columns(names: str, cells: Callable[[_Shown], list[Cell]]) -> Columns:
    """The name, and these columns; ``cells`` makes those behind the name."""
    return Columns(_defined(f"Name, {names}"), lambda shown: [shown.name, *cells(shown)])


def _pod(pod: _Shown) -> list[Cell]:
    ready, status, restarts = _pod_state(pod)
    addresses = pod.items("status.podIPs")
    gates = pod.items("spec.readinessGates")
    passed = sum(pod.condition(gate["conditionType"]) == "True" for gate in gates)
    return [
        ready,
        status,
        restarts,
        pod.age,
        (addresses[0].get("ip") if addresses else "") or _NONE,
        pod.text("spec.nodeName", _NONE),
        pod.text("status.nominatedNodeName", _NONE),
        f"{passed}/{len(gates)}" if gates else _NONE,
    ]


def _pod_state(pod: _Shown) -> tuple[str, str, str]:
    """Ready containers, the status in a word, and restarts: ``printPod``."""
    sidecars = {each["name"] for each in pod.items("spec.initContainers") if each.get("restartPolicy") == "Always"}
    gated = any(each.get("reason") == "SchedulingGated" for each in pod.items("status.conditions"))
    status = "SchedulingGated" if gated else pod.text("status.reason") or pod.text("status.phase")
    opening, ready = _init_state(pod, sidecars)
    counted = pod.items("status.initContainerStatuses")
    if not opening or pod.condition("Initialized") == "True":
        statuses = pod.items("status.containerStatuses")
        counted = [*statuses, *(each for each in counted if each["name"] in sidecars)]
        ready += sum(_is_running(each) for each in statuses)
        status = _container_state(pod, statuses) or status
    else:
        status = opening
    if pod.is_deleted and pod.text("status.reason") == "NodeLost":
        status = "Unknown"
    elif pod.is_deleted and pod.text("status.phase") not in ("Succeeded", "Failed"):
        status = "Terminating"
    restarts = sum(each.get("restartCount") or 0 for each in counted)
    ended = ((each.get("lastState") or {}).get("terminated") or {} for each in counted)
    last = max((each.get("finishedAt") or "" for each in ended), default="")
    total = len(pod.items("spec.containers")) + len(sidecars)
    return f"{ready}/{total}", status, f"{restarts} ({pod.age_of(last)} ago)" if restarts and last else str(restarts)


def _init_state(pod: _Shown, sidecars: set[str]) -> tuple[str, int]:
    """What holds the pod in its initialization ("" for nothing), and the sidecars that are ready."""
    ready = 0
    for number, each in enumerate(pod.items("status.initContainerStatuses")):
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
            return f"Init:{number}/{len(pod.items('spec.initContainers'))}", ready
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
    done, parallel = job.number("status.succeeded"), job.number("spec.parallelism")
    wanted = job.at("spec.completions")
    completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    began, ended = job.text("status.startTime"), job.text("status.completionTime")
    duration = job.age_of(began) if began else ""
    if began and ended:
        duration = human_duration((_moment(ended) - _moment(began)).total_seconds())
    reached = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"]
    states = [each for each in reached if job.condition(each) == "True"]
    if job.is_deleted and not {"Complete", "Failed"} & set(states):
        states = ["Terminating"]
    return [
        states[0] if states else "Running",
        completions if wanted is None else f"{done}/{wanted}",
        duration,
        *_owner(job),
    ]


def _service(service: _Shown) -> list[Cell]:
    external = ",".join(service.items("spec.externalIPs"))
    match service.text("spec.type"):
        case "ClusterIP" | "NodePort":
            outside = external or _NONE
        case "LoadBalancer":
            outside = ",".join(filter(None, (_addresses(service), external))) or "<pending>"
        case "ExternalName":
            outside = service.text("spec.externalName")
        case _:
            outside = _UNKNOWN
    ports = [
        f"{each['port']}:{each['nodePort']}/{each['protocol']}"
        if each.get("nodePort")
        else f"{each['port']}/{each['protocol']}"
        for each in service.items("spec.ports")
    ]
    inside = (service.items("spec.clusterIPs") or [_NONE])[0]
    selector = _labels(service.map("spec.selector"))
    return [service.text("spec.type"), inside, outside, ",".join(ports) or _NONE, service.age, selector]


def _addresses(balanced: _Shown) -> str:
    found = balanced.items("status.loadBalancer.ingress")
    return ",".join(sorted({each.get("ip") or each.get("hostname") or "" for each in found} - {""}))


def _ingress(ingress: _Shown) -> list[Cell]:
    rules = ingress.items("spec.rules")
    hosts = ",".join(each["host"] for each in rules[:3] if each.get("host")) or "*"
    if len(rules) > 3 and hosts != "*":
        hosts = f"{hosts} + {len(rules) - 3} more..."
    ports = "80, 443" if ingress.items("spec.tls") else "80"
    return [ingress.text("spec.ingressClassName", _NONE), hosts, _addresses(ingress), ports, ingress.age]


def _endpoint_slice(slice_: _Shown) -> list[Cell]:
    ports = [str(each.get("port") or each.get("name") or "*") for each in slice_.items("ports")]
    addresses = [address for each in slice_.items("endpoints") for address in each.get("addresses") or ()]
    return [slice_.text("addressType"), _few(ports) or _UNSET, _few(addresses) or _UNSET, slice_.age]


def _few(places: list[str], most: int = 3, comma: str = ",") -> str:
    text = comma.join(places[:most])
    return f"{text} + {len(places) - most} more..." if len(places) > most else text


def _node(node: _Shown) -> list[Cell]:
    ready = node.condition("Ready")
    states = ["Unknown" if not ready else "Ready" if ready == "True" else "NotReady"]
    if node.at("spec.unschedulable"):
        states.append("SchedulingDisabled")
    prefix, labels = "node-role.kubernetes.io/", node.map("metadata.labels")
    roles = {name.removeprefix(prefix) for name in labels if name.startswith(prefix)}
    roles |= {labels.get("kubernetes.io/role") or ""}
    addresses = {each["type"]: each["address"] for each in reversed(node.items("status.addresses"))}
    architecture = node.text("status.nodeInfo.architecture")
    kernel = node.text("status.nodeInfo.kernelVersion", _UNKNOWN)
    return [
        ",".join(states),
        ",".join(sorted(roles - {""})) or _NONE,
        node.age,
        node.text("status.nodeInfo.kubeletVersion"),
        addresses.get("InternalIP", _NONE),
        addresses.get("ExternalIP", _NONE),
        node.text("status.nodeInfo.osImage", _UNKNOWN),
        f"{kernel} ({architecture})" if architecture else kernel,
        node.text("status.nodeInfo.containerRuntimeVersion", _UNKNOWN),
    ]


def _event(event: _Shown) -> list[Cell]:
    first = event.age_of(event.at("firstTimestamp") or event.at("eventTime"))
    last = event.since("lastTimestamp") if event.at("lastTimestamp") else first
    count = event.number("count") or 1
    if event.at("series"):
        last, count = event.since("series.lastObservedTime"), event.number("series.count")
    target = "/".join(filter(None, (event.text("involvedObject.kind").lower(), event.text("involvedObject.name"))))
    component = event.text("source.component") or event.text("reportingComponent")
    instance = event.text("source.host") or event.text("reportingInstance")
    return [
        last,
        event.text("type"),
        event.text("reason"),
        target,
        event.text("involvedObject.fieldPath"),
        f"{component}, {instance}" if instance else component,
        event.text("message").strip(),
        first,
        count,
        event.name,
    ]


def _volume(volume: _Shown) -> list[Cell]:
    return [
        volume.text("spec.capacity.storage", "0"),
        _modes(volume.items("spec.accessModes")),
        volume.text("spec.persistentVolumeReclaimPolicy"),
        "Terminating" if volume.is_deleted else volume.text("status.phase"),
        f"{volume.text('spec.claimRef.namespace')}/{volume.text('spec.claimRef.name')}"
        if volume.at("spec.claimRef")
        else "",
        _class(volume),
        volume.text("spec.volumeAttributesClassName", _UNSET),
        volume.text("status.reason"),
        volume.age,
        volume.text("spec.volumeMode", _UNSET),
    ]


def _claim(claim: _Shown) -> list[Cell]:
    bound = claim.text("spec.volumeName")
    return [
        "Terminating" if claim.is_deleted else claim.text("status.phase"),
        bound,
        claim.text("status.capacity.storage", "0") if bound else "",
        _modes(claim.items("status.accessModes")) if bound else "",
        _class(claim),
        claim.text("spec.volumeAttributesClassName", _UNSET),
        claim.age,
        claim.text("spec.volumeMode", _UNSET),
    ]


def _class(claimed: _Shown) -> str:
    annotated = claimed.map("metadata.annotations").get("volume.beta.kubernetes.io/storage-class")
    return annotated or claimed.text("spec.storageClassName")


def _modes(modes: list[str]) -> str:
    return ",".join(short for long, short in _MODES.items() if long in modes)


def _autoscaler(scaler: _Shown) -> list[Cell]:
    current = scaler.items("status.currentMetrics")
    targets = [
        _metric(each, current[number] if number < len(current) else {})
        for number, each in enumerate(scaler.items("spec.metrics"))
    ]
    return [
        f"{scaler.text('spec.scaleTargetRef.kind')}/{scaler.text('spec.scaleTargetRef.name')}",
        _few(targets, 2, ", ") or _NONE,
        str(scaler.at("spec.minReplicas") or _UNSET),
        scaler.number("spec.maxReplicas"),
        scaler.number("status.currentReplicas"),
        scaler.age,
    ]


def _metric(wanted: Any, current: Any) -> str:
    """``cpu: 40%/80%``, ``500m/1k (avg)``."""
    kind = wanted["type"][:1].lower() + wanted["type"][1:]
    target = wanted[kind]["target"]
    now = (current.get(kind) or {}).get("current") or {}
    name = f"{wanted[kind]['name']}: " if kind in ("resource", "containerResource") else ""
    if average := target.get("averageValue"):
        suffix = " (avg)" if kind in ("external", "object") else ""
        return f"{name}{now.get('averageValue', _UNKNOWN)}/{average}{suffix}"
    if not name:
        return f"{now.get('value', _UNKNOWN)}/{target.get('value')}"
    used = f"{now['averageUtilization']}%" if "averageUtilization" in now else _UNKNOWN
    return f"{name}{used}/" + (f"{target['averageUtilization']}%" if "averageUtilization" in target else "<auto>")


def _binding(binding: _Shown) -> list[Cell]:
    subjects = binding.items("subjects")
    named = [", ".join(each["name"] for each in subjects if each["kind"] == kind) for kind in ("User", "Group")]
    accounts = [
        f"{each.get('namespace') or ''}/{each['name']}" for each in subjects if each["kind"] == "ServiceAccount"
    ]
    role = f"{binding.text('roleRef.kind')}/{binding.text('roleRef.name')}"
    return [role, binding.age, *named, ", ".join(accounts)]


def _storage_class(class_: _Shown) -> list[Cell]:
    is_default = class_.map("metadata.annotations").get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        f"{class_.name} (default)" if is_default else class_.name,
        class_.text("provisioner"),
        class_.text("reclaimPolicy", "Delete"),
        class_.text("volumeBindingMode", "Immediate"),
        bool(class_.at("allowVolumeExpansion")),
        class_.age,
    ]


def _owner(owner: _Shown, spec: str = "spec") -> list[Cell]:
    """``_OWNER``: the last columns of what makes pods."""
    return [owner.age, *owner.containers(spec), _selector(owner.map(f"{spec}.selector"))]


def _ready(owner: _Shown) -> str:
    return f"{owner.number('status.readyReplicas')}/{owner.number('spec.replicas')}"


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


_NAME_AND_AGE = _columns("Age", lambda shown: [shown.age])
_CREATED = _columns("Created At:date", lambda shown: [shown.text("metadata.creationTimestamp")])
_BINDINGS = _columns("Role, Age, +Users, +Groups, +ServiceAccounts", _binding)
_OWNER = "Age, +Containers, +Images, +Selector"

_BUILT_IN: Mapping[str, Columns] = {
    "configmaps": _columns("Data, Age", lambda map_: [len(map_.map("data")) + len(map_.map("binaryData")), map_.age]),
    "events": Columns(
        _defined("Last Seen, Type, Reason, Object, +Subobject, +Source, Message, +First Seen, +Count, +Name"), _event
    ),
    "limitranges": _CREATED,
    "namespaces": _columns("Status, Age", lambda namespace: [namespace.text("status.phase"), namespace.age]),
    "nodes": _columns(
        "Status, Roles, Age, Version, +Internal-IP, +External-IP, +OS-Image, +Kernel-Version, +Container-Runtime", _node
    ),
    "persistentvolumeclaims": _columns(
        "Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, +VolumeMode", _claim
    ),
    "persistentvolumes": _columns(
        "Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, "
        "+VolumeMode",
        _volume,
    ),
    "pods": _columns("Ready, Status, Restarts, Age, +IP, +Node, +Nominated Node, +Readiness Gates", _pod),
    "secrets": _columns("Type, Data, Age", lambda secret: [secret.text("type"), len(secret.map("data")), secret.age]),
    "services": _columns("Type, Cluster-IP, External-IP, Port(s), Age, +Selector", _service),
    "daemonsets.apps": _columns(
        "Desired:integer, Current:integer, Ready:integer, Up-to-date:integer, "
        f"Available:integer, Node Selector, {_OWNER}",
        lambda owner: [
            owner.number("status.desiredNumberScheduled"),
            owner.number("status.currentNumberScheduled"),
            owner.number("status.numberReady"),
            owner.number("status.updatedNumberScheduled"),
            owner.number("status.numberAvailable"),
            _labels(owner.map("spec.template.spec.nodeSelector")),
            *_owner(owner),
        ],
    ),
    "deployments.apps": _columns(
        f"Ready, Up-to-date, Available, {_OWNER}",
        lambda owner: [
            _ready(owner),
            owner.number("status.updatedReplicas"),
            owner.number("status.availableReplicas"),
            *_owner(owner),
        ],
    ),
    "replicasets.apps": _columns(
        f"Desired:integer, Current:integer, Ready:integer, {_OWNER}",
        lambda owner: [
            owner.number("spec.replicas"),
            owner.number("status.replicas"),
            owner.number("status.readyReplicas"),
            *_owner(owner),
        ],
    ),
    "statefulsets.apps": _columns(
        "Ready, Age, +Containers, +Images", lambda owner: [_ready(owner), owner.age, *owner.containers()]
    ),
    "horizontalpodautoscalers.autoscaling": _columns(
        "Reference, Targets, MinPods, MaxPods, Replicas, Age", _autoscaler
    ),
    "cronjobs.batch": _columns(
        f"Schedule, Timezone, Suspend:boolean, Active:integer, Last Schedule, {_OWNER}",
        lambda cron: [
            cron.text("spec.schedule"),
            cron.text("spec.timeZone", _NONE),
            str(bool(cron.at("spec.suspend"))),
            len(cron.items("status.active")),
            cron.since("status.lastScheduleTime") if cron.at("status.lastScheduleTime") else _NONE,
            *_owner(cron, "spec.jobTemplate.spec"),
        ],
    ),
    "jobs.batch": _columns(f"Status, Completions, Duration, {_OWNER}", _job),
    "ingresses.networking.k8s.io": _columns("Class, Hosts, Address, Ports, Age", _ingress),
    "networkpolicies.networking.k8s.io": _columns(
        "Pod-Selector, Age", lambda policy: [_selector(policy.map("spec.podSelector")), policy.age]
    ),
    "poddisruptionbudgets.policy": _columns(
        "Min Available, Max Unavailable, Allowed Disruptions:integer, Age",
        lambda budget: [
            str(budget.map("spec").get("minAvailable", "N/A")),
            str(budget.map("spec").get("maxUnavailable", "N/A")),
            budget.number("status.disruptionsAllowed"),
            budget.age,
        ],
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "clusterroles.rbac.authorization.k8s.io": _CREATED,
    "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
    "roles.rbac.authorization.k8s.io": _CREATED,
    "storageclasses.storage.k8s.io": Columns(
        _defined("Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age"), _storage_class
    ),
    "customresourcedefinitions.apiextensions.k8s.io": _CREATED,
    "leases.coordination.k8s.io": _columns("Holder, Age", lambda lease: [lease.text("spec.holderIdentity"), lease.age]),
    "endpointslices.discovery.k8s.io": _columns("AddressType, Ports, Endpoints, Age", _endpoint_slice),
}
