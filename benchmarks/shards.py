"""What a shard costs where servers send all objects: ``python -m benchmarks.shards [--rounds N]``. CPU time, in turns.

First the hash of a uid alone, computed and remembered; the best of several turns. Then whole bridges to a file, with
all objects and with a quarter of them, at full speed. Both figures are per event that the server sends. The median of
their ratios gives the cost of an event of another shard, and what all shards carry together.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path

from benchmarks.contenders import Bridge, Place
from benchmarks.destinations import Destination, File
from benchmarks.load_records import OwnRecords, mixed
from benchmarks.turns import print_bridges, print_calls
from bridge.model.primitives.shard import Shard, fnv1a_64

SHARD = Shard(of=4, index=0)


class ShardFile(File):
    """A file with the records of some of the pods."""

    def __init__(self, folder: Path, pods: int, own: Container[int]) -> None:
        super().__init__(folder)
        self._records = OwnRecords(pods, own)

    def arrived(self) -> int:
        """Records of all pods, up to the next that is for this file."""
        return self._records.through(super().arrived())


class ShardBridge(Bridge):
    """A single file sink, and the objects of a shard."""

    def __init__(self, shard: Shard) -> None:
        super().__init__("file", options={"shard": {"of": shard.of, "index": shard.index}})
        self._shard = shard

    def destinations(self, place: Place) -> Sequence[Destination]:
        pods = place.server.load.pods
        own = {pod for pod in range(pods) if self._shard.contains(uid(pod), "")}
        return [ShardFile(place.folder, pods, own)]


def calls() -> Mapping[str, Callable[[], object]]:
    """For a uid. A bridge remembers the hashes of those that changed last."""
    text = uid(0)
    return {"hash": lambda: fnv1a_64.__wrapped__(text), "hash, remembered": lambda: fnv1a_64(text)}


def uid(pod: int) -> str:
    """Of a pod by its number, as `load/template.go` renders it."""
    seed = mixed(pod)
    text = "".join(mixed(each).to_bytes(8, "little").hex() for each in (seed, seed + 1))
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def foreign(ratio: float, of: int) -> float:
    """What an event of another shard costs against an own one. ``ratio``: what all events cost one of ``of`` shards,
    against a bridge with all objects."""
    return (ratio - 1 / of) / (1 - 1 / of)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shards")
    parser.add_argument("--rounds", type=int, default=5, help="of whole bridges; 0 for hashes alone")
    rounds = parser.parse_args().rounds
    print_calls(calls())
    bridges = {"all objects": Bridge("file"), str(SHARD): ShardBridge(SHARD)}
    ratio = print_bridges(lambda _: bridges, rounds)
    if ratio is not None:
        print(f"an event of another shard costs {foreign(ratio, SHARD.of):.3f} times an own one")
        print(f"{SHARD.of} shards carry {1 / ratio:.2f} times as much as one bridge")


if __name__ == "__main__":
    main()
