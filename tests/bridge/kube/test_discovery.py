from __future__ import annotations

import copy
import json
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from bridge.kube import ApiError, Catalogue, KubeClient
from bridge.kube.discovery_documents import (
    MOST_MEMBERS,
    MOST_REJECTED,
    MOST_RESOURCES,
    read_aggregated,
    read_classic_groups,
    read_classic_resources,
)
from bridge.kube.wire.objects import UNREADABLE
from bridge.model.answers import Busy, Failed
from bridge.model.resource import Resource
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.cluster import DiscoveryRejected, GroupStale
from tests.bridge.kube.discovery_documents import (
    AGGREGATED,
    DEPLOYMENTS,
    PODS,
    SMALL,
    Described,
    World,
    aggregated,
    serve_aggregated,
    serve_classic,
)
from tests.kit.scripted_server import Exchange, ScriptedServer, answering

WIDGETS: World = {("example.com", "v1"): [Described("widgets", "Widget")]}
STALE_REASON = "its API server does not answer: the resources that it served last are kept"


def rejected(facts: list[Fact]) -> list[str]:
    return [fact.name for fact in facts if isinstance(fact, DiscoveryRejected)]


def names(catalogue: Catalogue) -> list[str]:
    return [f"{each.name}@{each.version}" for each in catalogue.resources]


EVERYTHING = [
    "endpoints@v1",
    "events@v1",
    "nodes@v1",
    "pods@v1",
    "secrets@v1",
    "deployments.apps@v1",
    "replicasets.apps@v1",
    "events.events.k8s.io@v1",
    "horizontalpodautoscalers.autoscaling@v2",
    "horizontalpodautoscalers.autoscaling@v1",
    "oldscalers.autoscaling@v1",
    "deployments.extensions@v1beta1",
    "relics.extensions@v1beta1",
    "leases.coordination.k8s.io@v1",
    "certificates.cert-manager.io@v1",
    "issuers.cert-manager.io@v1",
    "pods.cert-manager.io@v1",
]


@pytest.mark.parametrize("serve", [serve_aggregated, serve_classic])
async def test_all_listable_watchable_resources_are_found_in_order(
    server: ScriptedServer, client: KubeClient, serve: Any
) -> None:
    serve(server, SMALL)
    catalogue = await client.discover()
    assert names(catalogue) == EVERYTHING
    assert Resource("", "v1", "nodes", "Node", namespaced=False) in catalogue.resources
    assert Resource("apps", "v1", "deployments", "Deployment", namespaced=True) in catalogue.resources
    [hpa] = {each.short_names for each in catalogue.served if each.resource.group == "autoscaling" and each.short_names}
    assert hpa == ("hpa",)


async def test_two_requests_with_one_accept_header_are_enough(server: ScriptedServer, client: KubeClient) -> None:
    serve_aggregated(server, SMALL)
    await client.discover()
    assert [request.path for request in server.requests] == ["/api", "/apis"]
    assert server.requests[0].headers["accept"] == (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList, "
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList, application/json"
    )


@pytest.mark.parametrize("serve", [serve_aggregated, serve_classic])
async def test_the_same_catalogue_comes_back_where_nothing_changed(
    server: ScriptedServer, client: KubeClient, serve: Any
) -> None:
    serve(server, SMALL)
    first = await client.discover()
    assert await client.discover(first) is first
    if serve is serve_aggregated:
        assert [request.headers.get("if-none-match") for request in server.requests] == [None, None, '"1"', '"1"']


async def test_a_new_definition_is_found_and_a_deleted_one_is_gone(server: ScriptedServer, client: KubeClient) -> None:
    before: Catalogue | None = None
    found = []
    widgets = [Described("widgets", "Widget")]
    for number, more in enumerate(({}, WIDGETS, {("example.com", "v2"): widgets}, {})):
        serve_aggregated(server, SMALL | more, etag=f'"{number}"')
        before = await client.discover(before)
        found.append(names(before))
    of_v1, of_v2 = ([*EVERYTHING, f"widgets.example.com@{version}"] for version in ("v1", "v2"))
    assert found == [EVERYTHING, of_v1, of_v2, EVERYTHING]


@pytest.mark.parametrize("etag", ['"' + "x" * 300 + '"', '"\xe9\xff"', ""])
async def test_an_etag_that_cannot_be_sent_back_is_not_kept(
    server: ScriptedServer, client: KubeClient, etag: str
) -> None:
    serve_aggregated(server, SMALL, etag=etag)
    first = await client.discover()
    assert await client.discover(first) is first
    assert not [request for request in server.requests if "if-none-match" in request.headers]


# ── Aggregated servers that are down ─────────────────────────────────────────


async def test_what_a_stale_group_served_is_kept_and_reported_once(
    server: ScriptedServer, client: KubeClient, facts: list[Fact]
) -> None:
    serve_aggregated(server, SMALL | WIDGETS)
    before = await client.discover()
    serve_aggregated(server, SMALL | WIDGETS, etag='"2"', stale=("example.com",))
    during = await client.discover(before)
    await client.discover(during)
    serve_aggregated(server, SMALL | WIDGETS, etag='"3"')
    after = await client.discover(during)

    assert during.resources == before.resources == after.resources
    assert (before.stale, during.stale, after.stale) == (frozenset(), frozenset({"example.com/v1"}), frozenset())
    assert facts == [GroupStale("example.com/v1", STALE_REASON)]


async def test_a_group_stale_from_the_beginning_serves_nothing(
    server: ScriptedServer, client: KubeClient, facts: list[Fact]
) -> None:
    serve_aggregated(server, SMALL | WIDGETS, stale=("example.com",))
    assert names(await client.discover()) == EVERYTHING
    assert facts == [GroupStale("example.com/v1", STALE_REASON)]


@pytest.mark.parametrize(
    "down",
    [answering(b"service unavailable\n", 503, "text/plain"), answering({"resources": 7}), answering(b"{")],
)
async def test_a_group_whose_classic_document_cannot_be_had_is_kept(
    server: ScriptedServer, client: KubeClient, down: Any
) -> None:
    serve_classic(server, SMALL | WIDGETS)
    before = await client.discover()
    server.on("/apis/example.com/v1", down)
    during = await client.discover(before)
    assert during.resources == before.resources
    assert during.stale == {"example.com/v1"}


async def test_a_group_that_went_between_two_classic_requests_is_gone(
    server: ScriptedServer, client: KubeClient
) -> None:
    serve_classic(server, SMALL | WIDGETS)
    before = await client.discover()
    server.on("/apis/example.com/v1", answering(b"404 page not found\n", 404, "text/plain"))
    during = await client.discover(before)
    assert names(during) == EVERYTHING
    assert not during.stale


# ── What a server may answer ─────────────────────────────────────────────────


async def test_an_older_aggregated_document_is_read_too(server: ScriptedServer, client: KubeClient) -> None:
    document = aggregated({("", "v1"): [PODS]}, "/api") | {"apiVersion": "apidiscovery.k8s.io/v2beta1"}
    server.on("/api", answering(document))
    server.on("/apis", answering(aggregated({("apps", "v1"): [DEPLOYMENTS]}, "/apis")))
    assert names(await client.discover()) == ["pods@v1", "deployments.apps@v1"]


async def test_a_resource_without_a_kind_cannot_be_watched(server: ScriptedServer, client: KubeClient) -> None:
    document = aggregated({("", "v1"): [PODS]}, "/api")
    document["items"][0]["versions"][0]["resources"][0]["responseKind"] = None
    server.on("/api", answering(document))
    server.on("/apis", answering(aggregated({}, "/apis")))
    assert names(await client.discover()) == []


@pytest.mark.parametrize("document", [b"<html>", b"{", b'{"kind":"APIGroupDiscoveryList","items":7}'])
async def test_a_document_that_cannot_be_read_is_a_failure(
    server: ScriptedServer, client: KubeClient, document: bytes
) -> None:
    server.on("/api", answering(document))
    with pytest.raises(ApiError) as raised:
        await client.discover()
    assert isinstance(raised.value.answer, Failed)
    assert str(raised.value).startswith("GET /api: the discovery document could not be read: ")


async def test_a_silent_server_leaves_the_catalogue_to_the_caller(server: ScriptedServer, client: KubeClient) -> None:
    serve_aggregated(server, SMALL)
    before = await client.discover()
    server.on("/apis", answering(b"", 503, headers={"Retry-After": "3"}))
    with pytest.raises(ApiError) as raised:
        await client.discover(before)
    assert isinstance(raised.value.answer, Busy)
    assert raised.value.answer.after == 3


# ── What is not accepted ─────────────────────────────────────────────────────

BAD_NAMES = [
    "../../../api/v1/secrets",
    "%2e%2e%2f%2e%2e%2fapi%2fv1%2fsecrets",
    "secrets?watch=1",
    "secrets#",
    "..",
    "*",
    "Secrets",
    "a.b",
    "",
    "x" * 64,
    "a\nb",
    "a\n",
    "\x1b[2J",
    "\u202esterces",
    "http://example.com",
]


@pytest.mark.parametrize("serve", [serve_aggregated, serve_classic])
@pytest.mark.parametrize("bad", BAD_NAMES, ids=ascii)
async def test_a_resource_with_a_bad_name_is_left_out_alone(
    server: ScriptedServer, client: KubeClient, facts: list[Fact], serve: Any, bad: str
) -> None:
    widgets = Described("widgets", "Widget", ("wd",))
    serve(server, SMALL | {("evil.example.com", "v1"): [Described(bad, "Evil"), widgets]})

    catalogue = await client.discover()
    await client.discover(catalogue)

    assert names(catalogue) == [*EVERYTHING, "widgets.evil.example.com@v1"]
    if "/" in bad and serve is serve_classic:
        return  # That is how subresources are written there.
    [said] = rejected(facts)
    assert said.startswith("evil.example.com/v1 '")
    assert said.isascii()
    assert said.isprintable()


@pytest.mark.parametrize("bad", ["../..", "Example.com", "a..b", "", "a" * 254, "évil.example"], ids=ascii)
@pytest.mark.parametrize("serve", [serve_aggregated, serve_classic])
async def test_a_group_with_a_bad_name_is_left_out(
    server: ScriptedServer, client: KubeClient, facts: list[Fact], serve: Any, bad: str
) -> None:
    serve(server, SMALL)
    apis = aggregated(WIDGETS, "/apis")
    if serve is serve_aggregated:
        [group] = [dict(each) for each in apis["items"]]
        group["metadata"] = {"name": bad}
        document = aggregated(SMALL, "/apis")
        document["items"] = [group, *document["items"]]
        server.on("/apis", answering(document, content_type=AGGREGATED))
    else:
        serve(server, SMALL | {(bad, "v9"): [Described("widgets", "Widget")]} if bad else SMALL)

    catalogue = await client.discover()

    assert names(catalogue) == EVERYTHING
    if bad or serve is serve_aggregated:
        assert len(rejected(facts)) == 1


@pytest.mark.parametrize("bad", ["v1/../..", "V1", "", "v" * 64, "v1\n"], ids=ascii)
async def test_a_version_with_a_bad_name_is_left_out(
    server: ScriptedServer, client: KubeClient, facts: list[Fact], bad: str
) -> None:
    serve_aggregated(server, SMALL | {("example.com", bad): [Described("widgets", "Widget")]})

    assert names(await client.discover()) == EVERYTHING
    assert len(rejected(facts)) == 1


async def test_a_bad_kind_drops_the_resource_a_bad_short_name_itself(
    server: ScriptedServer, client: KubeClient, facts: list[Fact]
) -> None:
    served = [Described("evils", "E\x1bvil"), Described("widgets", "Widget", ("../x", "wd"))]
    serve_aggregated(server, {("example.com", "v1"): served})

    [widgets] = (await client.discover()).served

    assert (widgets.resource.name, widgets.short_names) == ("widgets.example.com", ("wd",))
    assert rejected(facts) == [
        "example.com/v1 'evils' of kind 'E\\x1bvil': a DNS label and a kind are expected",
        "example.com/v1 widgets: its short name '../x': a DNS label is expected",
    ]


async def test_mistakes_in_one_group_do_not_hide_the_others(
    server: ScriptedServer, client: KubeClient, facts: list[Fact]
) -> None:
    document = aggregated(SMALL, "/apis")
    document["items"].insert(0, {"metadata": {"name": "evil.example.com"}, "versions": [{"version": 7}]})
    document["items"].insert(1, "a group")
    serve_aggregated(server, SMALL)
    server.on("/apis", answering(document, content_type=AGGREGATED))

    assert names(await client.discover()) == EVERYTHING
    first, second = rejected(facts)
    assert first.startswith("'evil.example.com' version 1: ")
    assert second.startswith("group 2: ")


WRONG: list[Any] = [None, 7, True, "", "x", [], [None], [7], {}, {"kind": None}]


def mutations(document: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The document with one value replaced by each of the wrong ones, or left out, and the place."""
    places: list[tuple[str | int, ...]] = [()]
    while places:
        place = places.pop()
        found = document
        for step in place:
            found = found[step]
        members = found if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ()
        places += [(*place, each) for each in members]
        for wrong in WRONG if place else ():
            changed = copy.deepcopy(document)
            within = changed
            for step in place[:-1]:
                within = within[step]
            within[place[-1]] = wrong
            yield place, changed


def plain(world: World, path: str) -> dict[str, Any]:
    return json.loads(json.dumps(aggregated(world, path)))  # type: ignore[no-any-return]


TWO_GROUPS: World = {
    ("one.example", "v1"): [Described("apples", "Apple", ("ap",)), Described("pears", "Pear", ("pe",))],
    ("one.example", "v2"): [Described("apples", "Apple")],
    ("two.example", "v1"): [Described("plums", "Plum", ("pl",))],
}


def test_one_bad_entry_of_an_aggregated_document_is_one_loss() -> None:
    """KubeVirt serves ``verbs: null``; whatever stands anywhere, only what it belongs to may go."""
    everything = {"apples@v1", "pears@v1", "apples@v2", "plums@v1"}
    cost = {0: {"apples@v1", "pears@v1", "apples@v2"}, 1: {"plums@v1"}}
    of_version = {(0, 0): {"apples@v1", "pears@v1"}, (0, 1): {"apples@v2"}, (1, 0): {"plums@v1"}}
    of_resource = {(0, 0, 0): "apples@v1", (0, 0, 1): "pears@v1", (0, 1, 0): "apples@v2", (1, 0, 0): "plums@v1"}
    tried = 0
    for place, document in mutations(plain(TWO_GROUPS, "/apis")):
        if place in {("items",), ("kind",)}:
            continue  # The document itself.
        found, _ = read_aggregated(json.dumps(document).encode(), "/apis")
        kept = {f"{served.resource.plural}@{each.version}" for each in found for served in each.served}
        allowed: set[str] = set()
        if len(place) >= 6 and place[4] == "resources":
            allowed = {of_resource[place[1], place[3], place[5]]}  # type: ignore[index]
        elif len(place) >= 4 and place[2] == "versions":
            allowed = of_version[place[1], place[3]]  # type: ignore[index]
        elif len(place) >= 2:
            allowed = cost[place[1]]  # type: ignore[index]
        assert everything - kept <= allowed, place
        tried += 1
    assert tried > 500


def test_one_bad_entry_of_a_classic_document_is_one_loss() -> None:
    entries = [entry for each in TWO_GROUPS["one.example", "v1"] for entry in each.classic()]
    document = json.loads(json.dumps({"kind": "APIResourceList", "resources": entries}))
    for place, changed in mutations(document):
        if len(place) >= 2:
            found = read_classic_resources("one.example/v1", json.dumps(changed).encode())
            lost = {"apples", "pears"} - {each.resource.plural for each in found.served}
            assert lost <= {["apples", "apples", "pears", "pears"][int(place[1])]}, place
    versions = ["one.example/v1", "two.example/v1"]
    groups = [{"versions": [{"groupVersion": each}], "preferredVersion": {"groupVersion": each}} for each in versions]
    for place, changed in mutations({"groups": groups}):
        if len(place) >= 2:
            kept, _ = read_classic_groups(json.dumps(changed).encode(), "/apis")
            assert set(versions) - {str(each) for each in kept} <= {versions[int(place[1])]}, place


async def test_a_resource_without_verbs_hides_no_other(
    server: ScriptedServer, client: KubeClient, facts: list[Fact]
) -> None:
    document = plain({("subresources.kubevirt.io", "v1"): [PODS, DEPLOYMENTS]}, "/apis")
    resources = document["items"][0]["versions"][0]["resources"]
    resources[0] |= {"verbs": None, "shortNames": None, "categories": None, "subresources": [None, {"verbs": None}]}
    resources += [{"resource": "", "responseKind": None, "scope": "", "singularResource": "", "verbs": None}]
    serve_aggregated(server, SMALL)
    server.on("/apis", answering(document, content_type=AGGREGATED))

    assert "deployments.subresources.kubevirt.io@v1" in names(await client.discover())
    assert not facts


@pytest.mark.parametrize("read", [lambda body: read_aggregated(body, "/apis"), partial(read_classic_resources, "v1")])
def test_a_document_of_countless_entries_is_refused_unread(read: Callable[[bytes], object]) -> None:
    with pytest.raises(UNREADABLE, match="members"):
        read(b'{"items":[' + b"7," * (MOST_MEMBERS + 1) + b"7]}")


async def test_the_core_group_is_served_under_api_alone(server: ScriptedServer, client: KubeClient) -> None:
    serve_aggregated(server, SMALL)
    claim = aggregated({("", "v1"): [Described("pods", "Evil")]}, "/api")
    server.on("/apis", answering(claim, content_type=AGGREGATED))

    assert {each.kind for each in (await client.discover()).resources if each.plural == "pods"} == {"Pod"}


async def test_how_much_one_group_may_describe_is_bounded(
    server: ScriptedServer, client: KubeClient, facts: list[Fact]
) -> None:
    many = [Described(f"w{number}", "Widget") for number in range(MOST_RESOURCES + 1)]
    bad = [Described(f"_{number}", "Widget") for number in range(MOST_RESOURCES)]
    serve_aggregated(server, {("example.com", "v1"): many, ("example.org", "v1"): bad})

    assert len((await client.discover()).resources) == MOST_RESOURCES
    said = rejected(facts)
    assert "example.com/v1 resource: only the first 2000 of 2001 are taken in" in said
    assert len(said) == 1 + MOST_REJECTED + 1


async def test_a_repaired_definition_is_found_and_reported_again(
    server: ScriptedServer, client: KubeClient, facts: list[Fact]
) -> None:
    bad, good = ({("example.com", "v1"): [Described(name, "Widget")]} for name in ("Widgets", "widgets"))
    catalogue: Catalogue | None = None
    found = []
    for etag, world in enumerate((bad, good, bad)):
        serve_aggregated(server, world, etag=f'"{etag}"')
        catalogue = await client.discover(catalogue)
        found.append(len(catalogue.resources))

    assert found == [0, 1, 0]
    assert len(rejected(facts)) == 2


# ── How large an answer may be ───────────────────────────────────────────────


def a_bomb(size: int) -> bytes:
    """That much white space, at a hundredth of it."""
    deflate = zlib.compressobj(1, wbits=31)
    piece = b" " * (1 << 20)
    return b"".join(deflate.compress(piece) for _ in range(size >> 20)) + deflate.flush()


@pytest.mark.parametrize("status", [200, 500])
async def test_a_small_answer_that_inflates_takes_no_memory(
    server: ScriptedServer, client: KubeClient, status: int
) -> None:
    server.on("/api", answering(a_bomb(1 << 27), status, headers={"Content-Encoding": "gzip"}))

    tracemalloc.start()
    try:
        with pytest.raises(ApiError) as raised:
            await client.discover()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 48 << 20
    if status == 200:
        assert "the answer is larger than 32 MiB" in str(raised.value)


async def test_an_answer_without_end_is_given_up(server: ScriptedServer, client: KubeClient) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.begin()
        while True:
            await exchange.send(b" " * (1 << 20))

    server.on("/api", endless)
    with pytest.raises(ApiError, match="larger than 32 MiB"):
        await client.discover()


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip"])
async def test_an_encoding_that_was_not_asked_for_is_refused_by_name(
    server: ScriptedServer, client: KubeClient, encoding: str
) -> None:
    server.on("/api", answering(b"{}", headers={"Content-Encoding": encoding}))
    with pytest.raises(ApiError, match=f"encoded as '{encoding}', which was not requested"):
        await client.discover()
