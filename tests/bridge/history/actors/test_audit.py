"""What an audit event says about who changed an object."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.history.actors.actor_log import Naming, encoded, names
from bridge.history.actors.audit import (
    BEFORE_ANNOTATION,
    UID_ANNOTATION,
    Actor,
    Join,
    NotAnAuditEvent,
    Person,
    actors_of,
)
from bridge.transform.redaction_key import RedactionKey
from tests.bridge.history.actors.audit_events import UID, answered, audit_event, line
from tests.kit.objects import BEYOND_ANY_STACK

REQUEST = "6f6a1f9c-0001/2026-11-27T10:00:00.000000Z/2026-11-27T10:00:00.020000Z"


def actors(event: dict[str, Any], naming: Naming = Naming.PLAIN) -> list[Actor]:
    return [*actors_of(line(event), "prod", names(naming, RedactionKey(bytes(32))))]


def test_an_answer_with_the_object_has_the_version_that_the_request_made() -> None:
    [actor] = actors(audit_event(**answered("42")))
    assert (actor.join, actor.uid, actor.version) == (Join.VERSION, UID, "42")
    assert (actor.key, actor.verb) == ("prod/apps/deployments/shop/web", "update")
    assert actor.user == Person("ada", ("ops", "system:authenticated"))
    assert (actor.agent, actor.address) == ("kubectl/v1.36.0", "10.0.0.9")


def test_nothing_of_a_body_is_kept() -> None:
    body = {"data": {"password": "hunter2"}}
    [actor] = actors(audit_event(**answered("42", annotations={"token": "hunter2"}), requestObject=body))
    assert b"hunter2" not in encoded(actor, "prod")


def test_the_admission_policy_names_the_version_before_the_change() -> None:
    [actor] = actors(audit_event(annotations={UID_ANNOTATION: UID, BEFORE_ANNOTATION: "41"}))
    assert (actor.join, actor.uid, actor.before) == (Join.BEFORE, UID, "41")


def test_without_both_only_object_and_time_are_known() -> None:
    [actor] = actors(
        audit_event(objectRef={**audit_event()["objectRef"], "uid": "sent by", "resourceVersion": "a client"})
    )
    assert (actor.join, actor.uid, actor.version, actor.before) == (Join.WINDOW, "", "", "")


def test_a_generated_name_is_in_the_answer() -> None:
    reference = {"resource": "deployments", "namespace": "shop", "apiGroup": "apps"}
    [actor] = actors(audit_event("create", **answered("42", name="web-x7k2p"), objectRef=reference))
    assert actor.key == "prod/apps/deployments/shop/web-x7k2p"
    [unnamed] = actors(audit_event("create", objectRef=reference))
    assert unnamed.join is Join.NONE


def test_an_object_that_is_deleted_at_once_is_known_by_its_uid() -> None:
    status = {"kind": "Status", "metadata": {}, "details": {"name": "web", "uid": UID}}
    [actor] = actors(audit_event("delete", responseObject=status))
    assert (actor.join, actor.uid, actor.version) == (Join.VERSION, UID, "")


def test_requests_that_a_client_gave_one_audit_id_have_ids_of_their_own() -> None:
    first, second = audit_event(), audit_event(requestReceivedTimestamp="2026-11-27T10:00:00.000001Z")
    assert actors(first)[0].id == actors(first)[0].id != actors(second)[0].id
    assert len(actors(audit_event(auditID="a" * 1_000_000))[0].id) < 2000


def test_a_collection_has_an_actor_for_each_object_that_was_listed() -> None:
    items = [
        {"metadata": {"uid": f"uid-{n}", "resourceVersion": str(n), "namespace": "shop", "name": f"web-{n}"}}
        for n in (1, 2)
    ]
    found = actors(audit_event("deletecollection", responseObject={"kind": "DeploymentList", "items": items}))
    assert [(each.id, each.join, each.before) for each in found] == [
        (f"{REQUEST}/uid-1", Join.BEFORE, "1"),
        (f"{REQUEST}/uid-2", Join.BEFORE, "2"),
    ]
    assert found[0].key == "prod/apps/deployments/shop/web-1"


@pytest.mark.parametrize(
    "members",
    [
        {"responseStatus": {"code": 409}},
        {"responseStatus": None},
        {"verb": "get"},
        {"stage": "RequestReceived"},
        {"stage": "Panic"},
        {"objectRef": None},
        {"requestURI": "/apis/apps/v1/namespaces/shop/deployments/web?dryRun=All&fieldManager=x"},
        {"requestURI": f"/apis?{'a=1&' * 200}dryRun=All"},
        {
            "verb": "create",
            "objectRef": {"resource": "pods", "subresource": "exec", "name": "web", "namespace": "shop"},
        },
        {"verb": "create", "objectRef": {"resource": "serviceaccounts", "subresource": "token", "name": "web"}},
    ],
    ids=lambda members: ",".join(members),
)
def test_a_request_that_changed_nothing_has_no_actor(members: dict[str, Any]) -> None:
    assert actors(audit_event() | members) == []


def test_impersonation_names_both() -> None:
    [actor] = actors(audit_event(impersonatedUser={"username": "deployer", "groups": None}))
    assert (actor.user.name, actor.impersonated) == ("ada", Person("deployer"))


def test_digests_of_names_are_equal_for_equal_names_and_leave_kubernetes_own() -> None:
    [first], [again] = actors(audit_event(), Naming.DIGEST), actors(audit_event("patch"), Naming.DIGEST)
    assert first.user == again.user
    assert first.user.name.startswith("hmac-sha256:")
    assert first.user.groups[1] == "system:authenticated"
    assert first.address.startswith("hmac-sha256:")
    assert b"ada" not in encoded(first, "prod").replace(b"metadata", b"")


def test_without_names_the_verb_and_the_client_are_left() -> None:
    [actor] = actors(audit_event(), Naming.NONE)
    assert (actor.user, actor.address, actor.agent) == (Person(), "", "kubectl/v1.36.0")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"kind": "Event"}',
        line(audit_event()).replace(b"Event", b"Pod"),
        line(audit_event()).replace(b'"ada"', b"7"),
        line(audit_event(requestObject="@")).replace(b'"@"', b"[" * BEYOND_ANY_STACK + b"]" * BEYOND_ANY_STACK),
        line(audit_event(user={"username": "\ud800"})).replace(b"\\ud800", b"\xff"),
    ],
    ids=range(8),
)
def test_what_is_no_audit_event_is_said_to_be_none(text: bytes) -> None:
    with pytest.raises(NotAnAuditEvent):
        actors_of(text, "prod", str)


def test_what_a_client_chooses_is_bounded() -> None:
    long = "x" * 100_000
    user = {"username": long, "groups": [long] * 1000}
    [actor] = actors(audit_event(user=user, userAgent=long, impersonatedUser=user, sourceIPs=[long]))
    assert len(encoded(actor, "prod")) < 300_000
