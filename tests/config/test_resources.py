from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from config.schema.resources import ResourceEntry, ResourceSettings, overlaps

ENTRY: TypeAdapter[ResourceSettings] = TypeAdapter(ResourceEntry)


@pytest.mark.parametrize(
    "name",
    [
        "pods",
        "po",
        "deployments.apps",
        "certificates.v1.cert-manager.io",
        "*.cert-manager.io",
        "*",
        "x2.y-z.example.com",
    ],
)
def test_resources_are_named_as_kubectl_names_them(name: str) -> None:
    assert ENTRY.validate_python(name).resource == name
    assert ENTRY.validate_python(name.upper()).resource == name


@pytest.mark.parametrize("name", ["pods/log", "", "pods.", ".apps", "po ds", "a.*", "**", "-a", "v1/pods", "pods\n"])
def test_anything_else_is_no_name_of_a_resource(name: str) -> None:
    with pytest.raises(ValidationError, match="kubectl"):
        ENTRY.validate_python(name)


@pytest.mark.parametrize("value", [7, True, None, ["pods"]])
def test_what_is_neither_a_name_nor_a_mapping_is_told_both(value: object) -> None:
    with pytest.raises(ValidationError, match="the name of a resource, or a mapping, is expected"):
        ENTRY.validate_python(value)


@pytest.mark.parametrize(
    "selector",
    [
        "tier=web", "tier==web", "tier!=web", "tier", "!tier", "a in (b,c)", "a notin (b, c ),x", "example.com/name=x",
        "a=", "a in (,b)", "generation > 3", " a = b , c ", "a in (b)",
    ],
)  # fmt: skip
def test_label_selectors_are_those_of_kubectl(selector: str) -> None:
    assert ENTRY.validate_python({"resource": "pods", "label_selector": selector}).label_selector == selector


@pytest.mark.parametrize("selector", ["tier in web", "a=b,", ",a", "a=b c", "a in ()x", "=b", "a in (b", "ä=b", "a&b"])
def test_label_selectors_that_the_server_refuses_are_refused(selector: str) -> None:
    with pytest.raises(ValidationError, match="label selector is expected"):
        ENTRY.validate_python({"resource": "pods", "label_selector": selector})


@pytest.mark.parametrize("selector", ["metadata.name=web", "status.phase!=Running,spec.nodeName=", "a==b"])
def test_field_selectors_are_those_of_kubectl(selector: str) -> None:
    assert ENTRY.validate_python({"resource": "pods", "field_selector": selector}).field_selector == selector


@pytest.mark.parametrize("selector", ["metadata.name", "=web", "a in (b)", "a=b,c"])
def test_a_field_selector_names_fields_and_values(selector: str) -> None:
    with pytest.raises(ValidationError, match="field selector is expected"):
        ENTRY.validate_python({"resource": "pods", "field_selector": selector})


@pytest.mark.parametrize("namespaces", [["Shop"], ["a.b"], ["a" * 64], [""], ["shop", "shop"], "shop"])
def test_namespaces_are_a_list_of_names_each_once(namespaces: object) -> None:
    with pytest.raises(ValidationError):
        ENTRY.validate_python({"resource": "pods", "namespaces": namespaces})


def _overlap(*entries: object) -> bool:
    return bool(list(overlaps([ENTRY.validate_python(entry) for entry in entries])))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pods", "pods"),
        ("pods", {"resource": "pods", "namespaces": ["shop"]}),
        ("deployments.apps", "deployments.v1.apps"),
        ("*", "*"),
        ("*", {"resource": "pods", "namespaces": ["shop"]}),
        ("*", {"resource": "*.apps", "label_selector": "tier=web"}),
        ({"resource": "*.apps", "namespaces": ["shop"]}, "deployments.apps"),
        ({"resource": "pods", "namespaces": ["a", "b"]}, {"resource": "pods", "namespaces": ["b", "c"]}),
        # An object may change from one of these to the other, and its deltas would have no order.
        ({"resource": "pods", "label_selector": "tier=web"}, {"resource": "pods", "label_selector": "tier=db"}),
        ({"resource": "pods", "field_selector": "metadata.name=a"}, {"resource": "pods"}),
        (
            {"resource": "pods", "field_selector": "metadata.name=a"},
            {"resource": "pods", "field_selector": "status.phase=Running, metadata.name==a"},
        ),
    ],
)
def test_entries_that_may_mean_one_object_overlap(one: object, other: object) -> None:
    assert _overlap(one, other)
    assert _overlap(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pods", "services"),
        ("deployments.apps", "deployments.extensions"),
        ("*.apps", "pods"),
        ({"resource": "*.apps", "namespaces": ["a"]}, "pods"),
        # A wildcard leaves out what is mostly noise: a name beside it adds that. Where it adds nothing, one watch
        # serves both.
        ("*", "leases.coordination.k8s.io"),
        ("*", "*.apps"),
        ({"resource": "*", "namespaces": ["a", "b"]}, {"resource": "endpoints", "namespaces": ["b", "a"]}),
        ("*.apps", "jobs.batch"),
        ("v1.example.com", "example.com"),
        ({"resource": "pods", "namespaces": ["a"]}, {"resource": "pods", "namespaces": ["b"]}),
        (
            {"resource": "configmaps", "field_selector": "metadata.name=a"},
            {"resource": "configmaps", "field_selector": "metadata.name=b"},
        ),
    ],
)
def test_entries_that_can_never_mean_one_object_do_not_overlap(one: object, other: object) -> None:
    assert not _overlap(one, other)
