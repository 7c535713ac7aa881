"""Commands on a state that is encrypted: they need its key, and a missing key is a mistake of the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.cli import main
from bridge.cli.exits import Exit
from bridge.model.policies import StartPolicy
from bridge.model.record import NewDeadLetter
from bridge.outbox import Cipher, EncryptionKey, Outbox
from bridge.telemetry.facts import discard
from tests.kit.configurations import a_config
from tests.kit.informed import Informed
from tests.kit.records import a_delta

KEYS = {"new": "1" * 64, "former": "2" * 64}
IDS = {name: EncryptionKey(text.encode()).id for name, text in KEYS.items()}
Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command with these key files, on a state that was encrypted with the former key."""
    for name, text in KEYS.items():
        (tmp_path / name).write_text(f"{text}\n")
    (tmp_path / "state").mkdir(mode=0o700)
    asyncio.run(_fill(tmp_path / "state"))

    def run(words: str, *names: str) -> int:
        encryption = {"key_files": [str(tmp_path / name) for name in names]}
        state = {"directory": str(tmp_path / "state"), "encryption": encryption}
        return main([*words.split(), "-c", str(a_config(tmp_path, sink="hook", state=state))])

    return run


async def _fill(directory: Path) -> None:
    cipher = Cipher([EncryptionKey(KEYS["former"].encode())])
    async with await Outbox.open(directory, {"hook": StartPolicy.NOW}, report=discard, cipher=cipher) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/web")
        letter = NewDeadLetter(a_delta(1), "too large", parked=False, answer="413: no")
        await outbox.sinks.dead_letters["hook"].add_dead_letters([letter])


@pytest.mark.parametrize(
    "words", ["cursors", "dead-letters list", "replay hook --from 1", "state check", "run", "check"]
)
@pytest.mark.parametrize("names", [(), ("new",)], ids=["no key", "another key"])
def test_a_missing_key_ends_every_command_with_78(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, names: tuple[str, ...]
) -> None:
    before = (tmp_path / "state" / "outbox.db").read_bytes()
    assert run(words, *names) == Exit.CONFIG
    printed = capsys.readouterr()
    assert f"state.encryption.key_files: no file has the key {IDS['former']}" in printed.out + printed.err
    assert (tmp_path / "state" / "outbox.db").read_bytes() == before
    assert not list((tmp_path / "state").glob("*.aside"))


def test_checks_show_the_bytes_under_each_key_and_that_of_new_content(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("state check", "new", "former") == Exit.OK
    lines = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert " B of content" in lines[f"key {IDS['former']}"]
    assert lines[f"key {IDS['new']}"].endswith(" 0 B of content")
    assert lines["no key"].endswith(" 0 B")
    run("check", "new", "former")
    assert f"state.encryption: new content is encrypted with the key {IDS['new']}" in capsys.readouterr().out


def test_dead_letters_are_shown_with_their_answers(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("dead-letters show 1", "former") == Exit.OK
    printed = capsys.readouterr().out
    assert "too large" in printed
    assert "413: no" in printed
