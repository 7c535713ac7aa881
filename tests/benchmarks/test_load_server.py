"""The load server: clients read the same from it as from an API server."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.build import CannotBuild
from benchmarks.load_records import concerned
from benchmarks.servers import Load, LoadServer
from benchmarks.shards import uid
from bridge.kube.discovery import ACCEPT
from bridge.kube.discovery_documents import read_aggregated, read_classic_groups, read_classic_resources
from tests.kit.deadlines import BUSY

pytestmark = pytest.mark.go("load")

PODS = "/api/v1/pods"
WATCH = {"watch": "true", "allowWatchBookmarks": "true"}
START = Callable[[Load], LoadServer]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[START]:
    started: list[LoadServer] = []

    def begin(load: Load) -> LoadServer:
        try:
            started.append(LoadServer(tmp_path / f"server-{len(started)}", load).start())
        except CannotBuild as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"left out: {error}")
        return started[-1]

    yield begin
    for server in started:
        server.stop()


@pytest.fixture
def server(start: START) -> LoadServer:
    return start(Load(pods=5))


# ── Lists ────────────────────────────────────────────────────────────────────


def test_pages_together_are_the_whole_list(server: LoadServer) -> None:
    pages: list[dict[str, Any]] = []
    token = ""
    while not pages or token:
        pages.append(get(server, PODS, limit="2", **({"continue": token} if token else {})))
        token = pages[-1]["metadata"].get("continue", "")
    whole = get(server, PODS)

    assert [len(page["items"]) for page in pages] == [2, 2, 1]
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [3, 1, None]
    assert {page["metadata"]["resourceVersion"] for page in pages} == {whole["metadata"]["resourceVersion"]}
    assert names(item for page in pages for item in page["items"]) == names(whole["items"])
    assert (whole["kind"], whole["apiVersion"]) == ("PodList", "v1")


def test_items_of_a_list_have_no_kind_and_each_is_another_object(server: LoadServer) -> None:
    items = get(server, PODS)["items"]

    assert not any("kind" in item or "apiVersion" in item for item in items)
    for identity in ("name", "uid", "resourceVersion"):
        assert len({item["metadata"][identity] for item in items}) == 5
    assert names(items) == sorted(names(items)), "in the order of their keys, as etcd has them"


def test_a_pod_is_of_the_size_and_the_parts_that_the_report_says(server: LoadServer) -> None:
    [line] = lines(server, 1, sendInitialEvents="true")
    pod = json.loads(line)["object"]

    assert 7_700 < len(line) < 7_900
    assert len(pod["metadata"]["managedFields"]) == 2
    assert len(pod["spec"]["containers"]) == len(pod["status"]["containerStatuses"]) == 2
    assert list(pod)[:2] == ["kind", "apiVersion"]


def test_a_list_and_a_watch_have_the_same_object(server: LoadServer) -> None:
    listed = get(server, PODS)["items"]
    watched = [json.loads(line)["object"] for line in lines(server, 5)]

    for item, reported in zip(listed, watched, strict=True):
        reported["metadata"]["annotations"].pop("load.kubedelta.test/written")
        item["metadata"]["annotations"].pop("load.kubedelta.test/written")
        assert {"kind": "Pod", "apiVersion": "v1", **item} == reported


# ── Watches ──────────────────────────────────────────────────────────────────


def test_a_watch_from_the_list_sends_every_update_once_in_order(server: LoadServer) -> None:
    version = get(server, PODS)["metadata"]["resourceVersion"]
    server.go(40)
    events = [json.loads(line) for line in lines(server, 40, resourceVersion=version)]

    assert {event["type"] for event in events} == {"MODIFIED"}
    assert [int(rv(event)) - int(version) for event in events] == list(range(1, 41))
    assert {event["object"]["metadata"]["uid"] for event in events} <= uids(server)
    assert len({event["object"]["metadata"]["uid"] for event in events}) > 1


def test_the_harness_knows_the_pod_of_each_record(server: LoadServer) -> None:
    version = get(server, PODS)["metadata"]["resourceVersion"]
    server.go(40)
    events = lines(server, 40, resourceVersion=version)
    listed = [item["metadata"]["uid"] for item in get(server, PODS)["items"]]

    reported = [*listed, *(json.loads(line)["object"]["metadata"]["uid"] for line in events)]
    assert reported == [uid(pod) for pod in itertools.islice(concerned(5), 45)]


def test_a_watch_list_ends_with_its_bookmark(server: LoadServer) -> None:
    *added, bookmark = map(json.loads, lines(server, 6, sendInitialEvents="true", resourceVersionMatch="NotOlderThan"))

    assert [event["type"] for event in added] == ["ADDED"] * 5
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert rv(bookmark) == get(server, PODS)["metadata"]["resourceVersion"]


def test_a_watch_ends_when_its_time_is_over(server: LoadServer) -> None:
    with httpx.stream(
        "GET", server.url + PODS, params={**WATCH, "timeoutSeconds": "1"}, verify=False, timeout=20 * BUSY
    ) as answer:
        assert len(list(answer.iter_lines())) == 5


def test_an_event_says_when_it_was_written(server: LoadServer) -> None:
    before = time.time_ns()
    version = get(server, PODS)["metadata"]["resourceVersion"]
    server.go(1)
    [line] = lines(server, 1, resourceVersion=version)
    written = json.loads(line)["object"]["metadata"]["annotations"]["load.kubedelta.test/written"]

    assert before < int(written) < time.time_ns()


def test_a_rate_is_kept_on_average(server: LoadServer) -> None:
    version = get(server, PODS)["metadata"]["resourceVersion"]
    with httpx.stream(
        "GET", server.url + PODS, params={**WATCH, "resourceVersion": version}, verify=False, timeout=20 * BUSY
    ) as answer:
        server.go(50, rate=100)
        events = [json.loads(line)["object"] for line in itertools.islice(answer.iter_lines(), 50)]
    first, *_, last = (int(each["metadata"]["annotations"]["load.kubedelta.test/written"]) for each in events)

    assert last - first > 0.45e9


# ── Sizes and resources ──────────────────────────────────────────────────────


@pytest.mark.parametrize(("size", "kilobytes"), [("0.5", 0.5), ("2", 2), ("8", 8), ("30", 30), ("300", 300)])
def test_objects_have_the_size_that_was_asked_for(start: START, size: str, kilobytes: float) -> None:
    [line] = lines(start(Load(pods=1, size=size)), 1)

    assert len(line) / 1000 == pytest.approx(kilobytes, rel=0.2)


def test_a_mixture_has_all_sizes(start: START) -> None:
    sizes = [len(line) for line in lines(start(Load(pods=300, size="mixed")), 300)]

    assert {round(size / 1000) for size in sizes} == {0, 2, 8, 30, 300}
    assert 5_000 < sum(sizes) / 300 < 15_000


def test_updates_are_spread_over_all_resources(start: START) -> None:
    server = start(Load(pods=2, widgets=2, widget_objects=2))
    versions = {path: get(server, path)["metadata"]["resourceVersion"] for path in (PODS, widgets(0), widgets(1))}
    server.go(60)
    events = server.stats()["events"]

    assert len(set(versions.values())) == 1, "one count of versions for all, as etcd has it"
    for path, version in versions.items():
        assert len(lines(server, 10, path, resourceVersion=version)) == 10
    assert server.stats()["events"] > events


def test_discovery_has_both_forms(start: START) -> None:
    server = start(Load(pods=1, widgets=2))
    aggregated = {path: ask(server, path, headers={"Accept": ACCEPT}) for path in ("/api", "/apis")}
    found = [group for path, answer in aggregated.items() for group in read_aggregated(answer.content, path).versions]
    classic = [
        read_classic_resources(str(name), ask(server, f"{prefix}/{name}").content)
        for prefix in ("/api", "/apis")
        for name in read_classic_groups(ask(server, prefix).content, prefix).versions
    ]

    assert found == classic
    assert [len(group.served) for group in found] == [1, 2]


def test_discovery_that_did_not_change_has_no_body(server: LoadServer) -> None:
    etag = ask(server, "/apis", headers={"Accept": ACCEPT}).headers["ETag"]

    assert ask(server, "/apis", headers={"Accept": ACCEPT, "If-None-Match": etag}).status_code == 304


# ── What the harness asks ────────────────────────────────────────────────────


def test_events_of_webhooks_are_counted(server: LoadServer) -> None:
    one, batch = "application/cloudevents+json", "application/cloudevents-batch+json"
    event = b'{"specversion":"1.0","data":{}}'
    for kind, body in ((one, event), (batch, b"[" + b",".join([event] * 3) + b"]")):
        httpx.post(server.hook_url, verify=False, content=body, headers={"Content-Type": kind}).raise_for_status()

    assert (server.stats()["hook_requests"], server.stats()["hook_events"]) == (2, 4)


def test_objects_that_a_webhook_brings_back_have_times(server: LoadServer) -> None:
    [pod, *_] = get(server, PODS)["items"]
    body = json.dumps([pod, pod], separators=(",", ":"))
    httpx.post(server.hook_url, verify=False, content=body).raise_for_status()
    written = int(pod["metadata"]["annotations"]["load.kubedelta.test/written"])

    assert [each[0] for each in server.arrivals()] == [written, written]
    assert all(written < arrived < time.time_ns() for _, arrived in server.arrivals())
    server.go(1)
    assert server.arrivals() == []


def test_it_says_what_it_was_asked_and_what_that_cost(server: LoadServer) -> None:
    get(server, PODS, limit="2")
    lines(server, 5)
    until = time.monotonic() + 20 * BUSY
    while (stats := server.stats())["bytes"] <= 7 * 7_800:  # It counts them once they are written: readers are faster.
        assert time.monotonic() < until

    assert stats["asked"][0]["what"] == f"GET {PODS}?limit=2"
    assert stats["asked"][0]["at"] < time.time_ns()
    assert (stats["lists"], stats["pages"], stats["watches"]) == (1, 1, 1)
    assert stats["cpu_seconds"] > 0
    assert stats["wall_seconds"] > 0

    server.forget_requests()
    assert server.stats()["asked"] is None


# ── Helpers ──────────────────────────────────────────────────────────────────


def ask(server: LoadServer, path: str, **options: Any) -> httpx.Response:
    return httpx.get(server.url + path, verify=False, **options)


def get(server: LoadServer, path: str, **params: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(server, path, params=params).raise_for_status().json()
    return found


def lines(server: LoadServer, count: int, path: str = PODS, **params: str) -> list[str]:
    """The first lines of a watch."""
    with httpx.stream("GET", server.url + path, params={**WATCH, **params}, verify=False, timeout=20 * BUSY) as answer:
        return list(itertools.islice(answer.iter_lines(), count))


def names(items: Any) -> list[str]:
    return [item["metadata"]["namespace"] + "/" + item["metadata"]["name"] for item in items]


def uids(server: LoadServer) -> set[str]:
    return {item["metadata"]["uid"] for item in get(server, PODS)["items"]}


def rv(event: dict[str, Any]) -> str:
    version: str = event["object"]["metadata"]["resourceVersion"]
    return version


def widgets(number: int) -> str:
    return f"/apis/load.kubedelta.test/v1/widgets{number:03d}"
