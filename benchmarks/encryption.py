"""What encryption at rest costs for each event: ``python -m benchmarks.encryption [--rounds N]``. CPU time, in turns.

First packing a pod alone, without and with encryption; the best of several turns. Then whole bridges to a file, without
keys and with a key, at full speed, and the median of their ratios.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.contenders import Bridge
from benchmarks.redaction import a_pod
from benchmarks.turns import print_bridges, print_calls
from bridge.model.primitives.packing import pack
from bridge.outbox import Cipher, EncryptionKey
from bridge.outbox.encryption import Place


def calls() -> Mapping[str, Callable[[], object]]:
    """For a pod."""
    body, cipher, place = a_pod().body, Cipher([EncryptionKey(bytes(32))]), Place.body(1)
    sealed = cipher.seal(place, pack(body))
    return {
        "pack": lambda: pack(body),
        "pack and encrypt": lambda: cipher.seal(Place.body(1), pack(body)),
        "decrypt": lambda: cipher.open(place, sealed),
    }


def bridges(folder: Path) -> Mapping[str, Bridge]:
    key = folder / "state.key"
    key.write_text("ab" * 32)
    state = {"directory": "./state", "encryption": {"key_files": [str(key)]}}
    return {"no key": Bridge("file"), "a key": Bridge("file", options={"state": state})}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encryption")
    parser.add_argument("--rounds", type=int, default=5, help="of whole bridges; 0 for bodies alone")
    rounds = parser.parse_args().rounds
    print_calls(calls())
    ratio = print_bridges(bridges, rounds)
    if ratio is not None:
        print(f"encryption costs {ratio:.3f} times an event without it")


if __name__ == "__main__":
    main()
