"""Each server does what it is there for, keeps its data over a kill, and ends."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import nats
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.cluster.fixtures import DefineCustomResource, MakeStream, MakeTopic, StartNats
from tests.cluster.kube_client import KubeClient, KubeError
from tests.cluster.roles import roles_of
from tests.cluster.servers import ControllerManager, Etcd, Kafka, KubeApiServer, Nats, Server, ServerFailed
from tests.cluster.servers.kafka import class_archive
from tests.cluster.servers.kube_apiserver import USERS, ClusterSecrets

REPOSITORY = Path(__file__).parents[2]


class Sleeper(Server):
    """A server that needs nothing but Python, for what all servers have in common."""

    start_timeout = 1.0

    def __init__(self, folder: Path, code: str = "import time; print('up', flush=True); time.sleep(600)") -> None:
        super().__init__(folder)
        self._code = code

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-c", self._code]

    def is_ready(self) -> bool:
        return self.log_tail().endswith("up")


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def ends_within(seconds: float, pid: int) -> bool:
    """Wait for the end of any process, a child or not."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], seconds)[0])
    finally:
        os.close(process)


def is_listening(address: str) -> bool:
    parts = urlsplit(address if "//" in address else f"//{address}")
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname or "", parts.port or 0)) == 0


def publish(broker: Kafka, topic: str, value: bytes, key: bytes | None = None) -> None:
    """Produce one record and wait for the broker's word. Raises KafkaException when it refuses."""
    refused: list[KafkaException] = []
    # librdkafka gives an unknown topic half a minute to appear.
    impatient = {"message.timeout.ms": 10_000, "topic.metadata.propagation.max.ms": 100}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, **impatient})

    def note(error: KafkaError | None, _: object) -> None:
        if error:
            refused.append(KafkaException(error))

    producer.produce(topic, value, key, on_delivery=note)
    assert producer.flush(15) == 0
    if refused:
        raise refused[0]


# ── What all servers have in common ──────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_ends_at_once_is_reported_with_its_log(tmp_path: Path) -> None:
    server = Sleeper(tmp_path, "import sys; sys.exit('no such flag: --colour')")

    with pytest.raises(ServerFailed, match=r"(?s)ended with 1 before it was ready.*no such flag: --colour"):
        server.start()


def test_a_server_that_never_gets_ready_is_reported_and_killed(tmp_path: Path) -> None:
    server = Sleeper(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(600)")

    with pytest.raises(ServerFailed, match="was not ready within 1 s"):
        server.start()

    assert is_gone(int(server.log_tail()))


def test_a_server_that_ignores_the_polite_end_is_killed(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    server = Sleeper(tmp_path, deaf).start()
    server.stop_timeout = 0.2
    pid = server.pid

    server.stop()

    assert is_gone(pid)


def test_a_frozen_server_can_be_stopped(tmp_path: Path) -> None:
    server = Sleeper(tmp_path).start()
    pid = server.pid
    server.pause()

    server.stop()

    assert is_gone(pid)


def test_a_stopped_server_cannot_be_frozen_nor_started_twice(tmp_path: Path) -> None:
    with Sleeper(tmp_path) as server, pytest.raises(ServerFailed, match="runs already"):
        server.start()

    with pytest.raises(ServerFailed, match="does not run"):
        server.pause()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux notifies a child that its parent died")
def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """The death signal follows the thread that starts a process, and the threads of an event loop end with it."""
    server = Sleeper(tmp_path)
    try:
        thread = threading.Thread(target=server.start)
        thread.start()
        thread.join()

        assert not ends_within(0.5, server.pid)
    finally:
        server.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux notifies a child that its parent died")
def test_servers_die_with_a_killed_test_process(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from typing import NamedTuple
from tests.cluster.test_servers import Sleeper
print(Sleeper(Path(sys.argv[1])).start().pid, flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        server = int(tests.stdout.readline())
        tests.send_signal(signal.SIGKILL)

        assert ends_within(10, server)


# ── A cluster that may be broken ─────────────────────────────────────────────────────────────────────────────────────


class Cluster(NamedTuple):
    etcd: Etcd
    api: KubeApiServer


@pytest.fixture
def cluster(breakable_etcd: Etcd, forgetful_apiserver: KubeApiServer) -> Cluster:
    return Cluster(breakable_etcd, forgetful_apiserver)


# ── etcd and the API server ──────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_written_to_the_api_server_raises_etcds_revision(
    kube: KubeClient, etcd: Etcd, namespace: str
) -> None:
    before = etcd.revision()

    made = await kube.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "a"}})

    assert before < int(made["metadata"]["resourceVersion"]) <= etcd.revision()


async def test_the_api_server_says_its_version(kube: KubeClient) -> None:
    version = await kube.get("/version")

    assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.36.3", "1", "36")


async def test_the_restricted_user_may_read_nothing(kube: KubeClient, namespace: str) -> None:
    async with KubeClient(kube.server, user="restricted") as restricted:
        with pytest.raises(KubeError) as refused:
            await restricted.get(f"/api/v1/namespaces/{namespace}/pods")

    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")


async def test_a_role_is_in_force_when_it_is_said_to_be(kube: KubeClient, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    async with KubeClient(kube.server, user="restricted") as restricted:
        for within in (namespace, "") * 5:
            async with roles_of(kube) as roles:
                await roles.let(["list"], {"": ["pods"]}, within)
                assert (await restricted.get(pods))["items"] == []
            with pytest.raises(KubeError, match="403"):
                await restricted.get(pods)


async def test_a_namespace_goes_with_all_in_it_even_with_finalizers(kube: KubeClient) -> None:
    held = {"metadata": {"name": "held", "finalizers": ["kubedelta.test/never"]}}
    await kube.create_namespace("doomed")
    await kube.create("/api/v1/namespaces/doomed/configmaps", held)
    await kube.create("/api/v1/namespaces/doomed/secrets", {"metadata": {"name": "plain"}})

    await kube.delete_namespace("doomed")

    for collection in ("configmaps", "secrets"):
        everywhere = await kube.get(f"/api/v1/{collection}")
        assert not [each for each in everywhere["items"] if each["metadata"]["namespace"] == "doomed"]


async def test_a_custom_resource_is_served_when_it_is_said_to_be(kube: KubeClient, namespace: str) -> None:
    widgets = await kube.create_crd("served.kubedelta.test")

    made = await kube.create(widgets.path(namespace), widgets.manifest("first", spec={"size": 3}))
    discovered = await kube.get(f"/apis/{widgets.group}/{widgets.version}")
    await kube.delete_crd(widgets)

    assert made["spec"] == {"size": 3}
    assert "widgets" in [each["name"] for each in discovered["resources"]]
    with pytest.raises(KubeError) as gone:
        await kube.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{widgets.name}")
    assert gone.value.code == 404


async def test_a_custom_resource_may_be_changed_at_once(
    kube: KubeClient, namespace: str, custom_resource: DefineCustomResource
) -> None:
    gadgets = await custom_resource("gadgets", "Gadget")
    await kube.create(gadgets.path(namespace), gadgets.manifest("first", spec={"size": 3, "colour": "red"}))

    changed = await kube.patch(f"{gadgets.path(namespace)}/first", {"spec": {"colour": None}})

    assert changed["spec"] == {"size": 3}


async def test_many_custom_resources_may_be_defined_at_once(kube: KubeClient, namespace: str) -> None:
    defined = await asyncio.gather(*(kube.create_crd(f"n{number}.kubedelta.test") for number in range(10)))

    await asyncio.gather(*(kube.create(each.path(namespace), each.manifest("first")) for each in defined))

    await asyncio.gather(*map(kube.delete_crd, defined))


async def test_a_deployment_becomes_pods_and_takes_them_with_it(
    kube: KubeClient, controller_manager: ControllerManager, namespace: str
) -> None:
    assert controller_manager.running
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": pod}
    deployments, pods = f"/apis/apps/v1/namespaces/{namespace}/deployments", f"/api/v1/namespaces/{namespace}/pods"

    await kube.create(deployments, {"metadata": {"name": "web"}, "spec": spec})
    await kube.wait_for(pods, lambda found: len(found) == 3)
    await kube.delete(f"{deployments}/web")

    await kube.wait_for(pods, lambda found: not found)


async def test_kubectl_works_with_the_kubeconfig(kube: KubeClient, namespace: str, tmp_path: Path) -> None:
    await kube.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "a"}})
    async with KubeClient(kube.server) as again:
        config = again.server.kubeconfig(tmp_path / "kubeconfig")
    if not any((Path(folder) / "kubectl").exists() for folder in os.get_exec_path()):
        pytest.skip("no kubectl on PATH")

    command = ["kubectl", "--kubeconfig", str(config), "-n", namespace, "get", "configmaps", "-o", "name"]
    asked = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await asked.communicate()

    assert output.decode().split() == ["configmap/a"]


async def test_the_cluster_survives_kill_9_of_everything(cluster: Cluster) -> None:
    etcd, api = cluster
    async with KubeClient(api) as client:
        made = await client.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "kept"}})

    api.kill9()
    etcd.kill9()
    etcd.start()
    api.start()

    async with KubeClient(api) as client:
        assert await client.get("/api/v1/namespaces/default/configmaps/kept") == made


async def test_a_version_before_the_compaction_is_refused_with_410(cluster: Cluster) -> None:
    async with KubeClient(cluster.api) as client:
        old = await client.get("/api/v1/configmaps")
        for name in ("lost", "newest"):
            await client.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})

        cluster.etcd.compact()

        watch = client.watch("/api/v1/configmaps", resourceVersion=old["metadata"]["resourceVersion"])
        with pytest.raises(KubeError) as expired:
            await asyncio.wait_for(anext(watch), timeout=30)
    assert (expired.value.code, expired.value.reason) == (410, "Expired")


async def test_versions_run_backwards_when_etcds_data_is_wiped(cluster: Cluster) -> None:
    etcd, api = cluster
    before = etcd.revision()
    async with KubeClient(api) as client:
        for number in range(50):
            await client.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"a{number}"}})
    for server in (api, etcd):
        server.stop()

    etcd.wipe()
    etcd.start()
    api.start()

    assert etcd.revision() < before + 50
    async with KubeClient(api) as client:
        assert not (await client.get("/api/v1/namespaces/default/configmaps"))["items"]


async def test_a_frozen_api_server_keeps_its_connections_and_goes_on(cluster: Cluster) -> None:
    api = cluster.api
    async with KubeClient(api) as client:
        await client.get("/version")
        api.pause()
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(client.get("/api/v1/nodes"))
            answered, _ = await asyncio.wait([asked], timeout=0.3)

            api.resume()

    assert not answered
    assert asked.result()["items"] == []


def test_a_watch_that_is_left_leaves_no_connection_open(cluster: Cluster) -> None:
    """Also if the server does not answer TLS's closing alert before the event loop ends."""

    async def leave() -> None:
        async with KubeClient(cluster.api) as client:
            watch = client.watch("/api/v1/namespaces")
            await anext(watch)
            cluster.api.pause()
            await watch.aclose()

    asyncio.run(leave())
    cluster.api.resume()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(each.message) for each in warned] == []


def test_api_servers_made_at_the_same_time_share_their_tokens(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path, build=tmp_path)
    at_once = threading.Barrier(8)

    def secrets_of_one() -> ClusterSecrets:
        at_once.wait()
        return ClusterSecrets.of(etcd)

    with ThreadPoolExecutor(8) as pool:
        made = [future.result() for future in [pool.submit(secrets_of_one) for _ in range(8)]]

    assert set(made[0].tokens) == set(USERS)
    assert all(secrets == made[0] for secrets in made)
    assert made[0].service_account_key.read_text().endswith("-----END EC PRIVATE KEY-----\n")


def test_a_stopped_cluster_leaves_nobody_behind(cluster: Cluster) -> None:
    etcd, api = cluster
    pids = [server.pid for server in cluster]

    for server in (api, etcd):
        server.stop()

    assert all(is_gone(pid) for pid in pids)
    assert not is_listening(etcd.url)
    assert not is_listening(api.url)


# ── Kafka ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_kafka_gives_back_what_it_was_given(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(partitions=3)
    for number in range(30):
        publish(kafka, topic, b"value-%d" % number, key=b"key-%d" % (number % 5))

    records = kafka.read_all(topic)

    assert sorted(record.value or b"" for record in records) == sorted(b"value-%d" % number for number in range(30))
    for key in {record.key for record in records}:
        of_key = [record for record in records if record.key == key]
        assert len({record.partition for record in of_key}) == 1
        assert [record.offset for record in of_key] == sorted(record.offset for record in of_key)


def test_kafka_refuses_a_topic_that_nobody_made(kafka: Kafka) -> None:
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        publish(kafka, "nobody-made-this", b"x")


def test_a_topic_has_the_settings_it_was_made_with(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    topic = kafka_topic(max_message_bytes="1000")

    with pytest.raises(KafkaException, match="MSG_SIZE_TOO_LARGE"):
        publish(kafka, topic, os.urandom(5000))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the files that a process has mapped")
def test_brokers_share_the_classes_that_one_has_loaded(kafka: Kafka, kafka_build: Path) -> None:
    assert str(class_archive(kafka_build)) in Path(f"/proc/{kafka.pid}/maps").read_text()


def test_kafka_ends_and_keeps_its_records(kafka: Kafka, kafka_topic: MakeTopic) -> None:
    """Killed, it keeps them as well: see tests/sinks/kafka."""
    topic = kafka_topic()
    publish(kafka, topic, b"before")
    pid = kafka.pid

    kafka.stop()
    assert is_gone(pid)
    assert not is_listening(kafka.bootstrap)
    kafka.start()
    publish(kafka, topic, b"after")

    assert [record.value for record in kafka.read_all(topic)] == [b"before", b"after"]


# ── NATS ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_nats_gives_back_what_it_was_given(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()
    async with await nats.connect(nats_server.url) as connection:
        for number in range(5):
            await connection.jetstream().publish(f"{stream.prefix}.a", b"%d" % number, headers={"Number": str(number)})

    records = await nats_server.read_all(stream.name)

    assert [(each.sequence, each.data, each.headers["Number"]) for each in records] == [
        (number + 1, b"%d" % number, str(number)) for number in range(5)
    ]


async def test_an_empty_stream_has_nothing_to_read(nats_server: Nats, nats_stream: MakeStream) -> None:
    stream = await nats_stream()

    assert await nats_server.read_all(stream.name) == []


async def test_nats_survives_kill_9_with_its_messages_and_ends(start_nats: StartNats) -> None:
    server = start_nats()
    async with await nats.connect(server.url) as connection:
        await connection.jetstream().add_stream(name="kept", subjects=["kept.>"])
        await connection.jetstream().publish("kept.a", b"before")

    server.kill9()
    server.start()
    records = await server.read_all("kept")
    pid = server.pid
    server.stop()

    assert [record.data for record in records] == [b"before"]
    assert is_gone(pid)
    assert not is_listening(server.url)
