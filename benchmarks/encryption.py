"""What encryption at rest costs for each event: ``python -m benchmarks.encryption [--rounds N]``. CPU time, in turns.

First packing a pod alone, without and with encryption; the best of several turns. Then whole bridges to a file, without
keys and with a key, at full speed, and the median of their ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.build import CannotBuild
from benchmarks.contenders import Bridge
from benchmarks.redaction import a_pod
from benchmarks.runs import Around, stream, turned
from benchmarks.servers import Load, brokers
from bridge.model.primitives.packing import pack
from bridge.outbox import Cipher, EncryptionKey
from bridge.outbox.encryption.cipher import Place

TURNS, REPEATS = 200, 100
LOAD, EVENTS = Load(pods=10_000), 20_000
PLAIN, ENCRYPTED = "no key", "a key"


def microseconds() -> Mapping[str, float]:
    """Of a pod."""
    body, cipher, place = a_pod().body, Cipher([EncryptionKey(bytes(32))]), Place.body(1)
    packed = pack(body)
    sealed = cipher.seal(place, packed)
    cases: dict[str, Callable[[], object]] = {
        "pack": lambda: pack(body),
        "pack and encrypt": lambda: cipher.seal(Place.body(1), pack(body)),
        "decrypt": lambda: cipher.open(place, sealed),
    }
    best = dict.fromkeys(cases, float("inf"))
    for turn in range(TURNS):
        for name in turned(list(cases), turn):
            start = time.process_time()
            for _ in range(REPEATS):
                cases[name]()
            best[name] = min(best[name], (time.process_time() - start) / REPEATS * 1e6)
    return best


def bridges(rounds: int) -> Iterator[dict[str, float]]:
    """CPU per event in microseconds, of each round. Raises CannotBuild."""
    with TemporaryDirectory(prefix="kubedelta-bench-") as folder, brokers(Path(folder), print) as shared:
        key = Path(folder) / "state.key"
        key.write_text("ab" * 32)
        contenders = {
            PLAIN: Bridge("file"),
            ENCRYPTED: Bridge(
                "file", options={"state": {"directory": "./state", "encryption": {"key_files": [str(key)]}}}
            ),
        }
        for number in range(rounds):
            figures = {}
            for name in turned(list(contenders), number):
                with TemporaryDirectory(dir=folder) as own:
                    figures[name] = stream(Around(Path(own), shared), contenders[name], LOAD, EVENTS)["cpu_us"]
            yield figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encryption")
    parser.add_argument("--rounds", type=int, default=5, help="of whole bridges; 0 for bodies alone")
    rounds = parser.parse_args().rounds
    for name, cpu in microseconds().items():
        print(f"{name:28} {cpu:7.1f} us")
    ratios = []
    try:
        for figures in bridges(rounds) if rounds else ():
            ratios.append(figures[ENCRYPTED] / figures[PLAIN])
            print(", ".join(f"{name} {cpu:.1f} us per event" for name, cpu in figures.items()), flush=True)
    except CannotBuild as error:
        print(f"left out: {error}")
    if ratios:
        print(f"encryption costs {statistics.median(ratios):.3f} times an event without it")


if __name__ == "__main__":
    main()
