from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.kube import ApiError, KubeClient
from bridge.model.answers import Failed, Refused
from bridge.model.resource import Resource
from tests.kit.scripted_server import Exchange, ScriptedServer, answering

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def test_a_client_names_the_server_and_where_it_found_it(server: ScriptedServer, client: KubeClient) -> None:
    assert (client.server, client.origin) == (server.url, "cluster.server")
    assert server.requests == []


async def test_any_path_of_the_api_can_be_read(server: ScriptedServer, client: KubeClient) -> None:
    path = "/apis/example.com/v1/things/a:b"
    server.on(path, answering({"a": 1}))
    assert json.loads(await client.get(path)) == {"a": 1}
    [request] = server.requests
    assert (request.method, request.headers.get("content-type")) == ("GET", None)
    assert request.headers["user-agent"].startswith("kubedelta/")


async def test_the_servers_version_is_asked_for(server: ScriptedServer, client: KubeClient) -> None:
    server.on("/version", answering({"major": "1", "minor": "36", "gitVersion": "v1.36.3"}))
    assert await client.version() == "v1.36.3"


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_right_is_asked_for_as_kubectl_auth_can_i_does(
    server: ScriptedServer, client: KubeClient, allowed: bool
) -> None:
    server.on(REVIEWS, answering({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}}, 201))
    assert await client.can_i("watch", group="", resource="pods", namespace="shop") is allowed
    assert server.requests[0].headers["content-type"] == "application/json"
    assert json.loads(server.requests[0].body)["spec"]["resourceAttributes"] == {
        "verb": "watch",
        "group": "",
        "resource": "pods",
        "namespace": "shop",
        "name": "",
    }


async def test_a_refusal_names_the_request_and_the_remedy(server: ScriptedServer, client: KubeClient) -> None:
    server.on("/version", answering({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}, 403))
    with pytest.raises(ApiError) as raised:
        await client.version()
    assert str(raised.value) == "GET /version: 403 Forbidden: no"
    assert raised.value.answer == Refused(403, "403 Forbidden: no")


@pytest.mark.parametrize("body", [b"<html>", {"gitVersion": 7}, []])
async def test_an_answer_of_another_shape_is_raised_too(server: ScriptedServer, client: KubeClient, body: Any) -> None:
    server.on("/version", answering(body))
    with pytest.raises(ApiError) as raised:
        await client.version()
    assert isinstance(raised.value.answer, Failed)
    assert str(raised.value).startswith("GET /version: the answer could not be read: ")


async def test_an_idle_connection_closed_by_the_server_is_no_error(server: ScriptedServer, client: KubeClient) -> None:
    async def and_close(exchange: Exchange) -> None:
        await exchange.answer({"gitVersion": "v1"})
        exchange.closes = True

    server.on("/version", and_close)
    assert [await client.version() for _ in range(3)] == ["v1"] * 3
