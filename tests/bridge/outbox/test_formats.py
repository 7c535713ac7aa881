"""Files that an earlier kubedelta wrote."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from bridge.model.packing import pack
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from bridge.outbox.clearing import Rhythm
from bridge.outbox.directory import FILE
from bridge.outbox.schema import FORMAT
from tests.bridge.outbox.opened import everything, opened, rows_of, story, tell
from tests.kit.follower import Server, followers
from tests.kit.informed import DEPLOYMENTS, PODS

TABLES = {number: Path(__file__).with_name(f"format_{number}.sql").read_text(encoding="utf-8") for number in (1, 2, 3)}
SHOP, PROD = Scope("shop"), Scope("prod")
TIME = "2026-11-21T09:00:00.000000Z"
BODY = b'{"serial":0}'

ROWS = f"""
UPDATE meta SET cluster = 'uid-1', last = 3, trimmed = 1;
INSERT INTO kinds VALUES (1, 'pods'), (2, 'deployments.apps');
INSERT INTO resources VALUES (1, 1, '', 'v1', 'pods', 'Pod', 1), (2, 2, 'apps', 'v1', 'deployments', 'Deployment', 1);
INSERT INTO informers VALUES (1, 1, 1, 'shop', '', '', '70', '70', 1, 0), (2, 1, 1, 'prod', '', '', '80', '80', 3, 0);
INSERT INTO objects VALUES (1, 'shop/web', 1, 'uid-0', '7', 1), (1, 'prod/web', 2, 'uid-1', '8', 2);
INSERT INTO log VALUES
    (1, 'added', 'watched', 1, 1, 'shop/web', 'uid-0', '7', '{TIME}', 1, NULL, NULL, :body),
    (2, 'added', 'watched', 1, 1, 'prod/web', 'uid-1', '8', '{TIME}', 2, NULL, NULL, :body),
    (3, 'deleted', 'relisted', 2, 2, 'shop/api', 'uid-2', '5', '{TIME}', 1, NULL, NULL, :body);
INSERT INTO cursors (sink, settled) VALUES ('audit', 1);
"""

ROWS_OF_2 = f"""
UPDATE meta SET cluster = 'uid-1', last = 8, trimmed = 2, posted = 4;
INSERT INTO kinds VALUES (1, 'pods', 3), (2, 'deployments.apps', 2);
INSERT INTO resources VALUES (1, 1, '', 'v1', 'pods', 'Pod', 1);
INSERT INTO informers VALUES (1, 1, 1, 'shop', '', '', '70', '70', 1, 0), (2, 1, 1, 'prod', '', '', '80', '80', 3, 0);
INSERT INTO objects VALUES (1, 'shop/web', 1, 'uid-0', '7', 1), (1, 'shop/api', 1, 'uid-2', '8', 4);
INSERT INTO superseded VALUES (2), (3);
INSERT INTO log (seq, op, evidence, kind, resource, key, uid, version, time, epoch, informer, body) VALUES
    (1, 'added', 'watched', 1, 1, 'shop/web', 'uid-0', '7', '{TIME}', 1, NULL, :body),
    (2, 'added', 'watched', 1, 1, 'shop/api', 'uid-2', '5', '{TIME}', 1, 1, :body),
    (3, 'sync', 'watched', 1, 1, 'shop/web', 'uid-0', '7', '{TIME}', 1, NULL, :body),
    (4, 'updated', 'watched', 1, 1, 'shop/api', 'uid-2', '8', '{TIME}', 1, 1, :body),
    (5, 'added', 'watched', 1, 1, 'prod/web', 'uid-1', '8', '{TIME}', 3, 2, :body),
    (6, 'deleted', 'watched', 1, 1, 'shop/api', 'uid-2', '9', '{TIME}', 1, NULL, :body),
    (7, 'added', 'watched', 1, 1, 'prod/tmp', 'uid-3', '9', '{TIME}', 3, 2, :body),
    (8, 'deleted', 'watched', 1, 1, 'prod/tmp', 'uid-3', '9', '{TIME}', 3, NULL, :body);
INSERT INTO cursors (sink, settled) VALUES ('audit', 2);
"""
"""Record 1 was written by version 1; what is behind record 4 is not in the table of objects yet."""

ROWS_OF_3 = f"""
UPDATE meta SET cluster = 'uid-1', last = 2, trimmed = 0;
INSERT INTO kinds VALUES (1, 'pods', 3);
INSERT INTO resources VALUES (1, 1, '', 'v1', 'pods', 'Pod', 1);
INSERT INTO informers VALUES (1, 1, 1, 'shop', '', '', '70', '70', 1, 0), (2, 1, 1, 'prod', '', '', '80', '80', 3, 0);
INSERT INTO log VALUES
    (1, 'added', 'watched', 1, 1, 'shop/web', 'uid-0', '7', '{TIME}', 1, NULL, NULL, :body),
    (2, 'added', 'watched', 1, 1, 'prod/web', 'uid-1', '8', '{TIME}', 3, NULL, NULL, :body);
INSERT INTO ledger VALUES (1, 1, 'shop/web', 1, 'uid-0', '7', NULL), (1, 2, 'prod/web', 2, 'uid-1', '8', NULL);
INSERT INTO cursors VALUES ('audit', 2, 0, 'replay', 2, 2);
INSERT INTO selections (sink, place, seq, op) VALUES ('audit', 1, 1, 'added'), ('audit', 2, 2, 'added');
"""
"""A replay is under way."""


def written_by_version_1(directory: Path) -> None:
    written(directory, TABLES[1], ROWS)


def written(directory: Path, tables: str, rows: str) -> None:
    connection = apsw.Connection(str(directory / FILE))
    connection.execute(tables)
    connection.execute(rows, {"body": pack(BODY)})
    connection.close()


async def informed(outbox: Outbox) -> dict[str, object]:
    known, left = await outbox.ledger.adopt(PODS, [SHOP, PROD])
    assert left == 0
    return {
        f"{scope}": found and (list(found.objects), found.position, found.newest, found.epoch)
        for scope, found in known.items()
    }


async def test_a_file_of_format_1_keeps_its_objects_positions_epochs_and_cursors(tmp_path: Path) -> None:
    written_by_version_1(tmp_path)
    for _ in range(2):
        async with opened(tmp_path) as outbox:
            assert (await outbox.check()).format == FORMAT
            assert (await outbox.check()).problems == []
            assert await outbox.ledger.identify("uid-1", restart=False) is None
            assert await informed(outbox) == {
                "namespace shop": (["shop/web"], "70", "70", 1),
                "namespace prod": (["prod/web"], "80", "80", 3),
            }
            assert story(await everything(outbox)) == ["added prod/web", "deleted shop/api"]
            assert (outbox.body(1), outbox.last, outbox.sinks["audit"].settled) == (BODY, 3, 1)


@pytest.mark.parametrize(("forgotten", "next_one"), [(1, 4), (5, 6)])
async def test_what_format_1_told_of_parts_that_it_forgot_does_not_come_again(
    tmp_path: Path, forgotten: int, next_one: int
) -> None:
    """Such as the deployment, which was deleted because nobody wanted to know of it any more."""
    written_by_version_1(tmp_path)
    tell(tmp_path, f"UPDATE log SET epoch = {forgotten} WHERE seq = 3")
    server = Server()
    server.put("shop/api")
    async with opened(tmp_path) as outbox:
        await (await followers(outbox, server, [SHOP], DEPLOYMENTS))[SHOP].look()
        [*_, told] = await everything(outbox)

    assert isinstance(told, Delta)
    assert (told.op, told.epoch) == ("added", next_one), "behind that of every informer and every record"


async def test_a_file_of_format_2_keeps_its_objects_and_what_is_to_be_told(tmp_path: Path) -> None:
    written(tmp_path, TABLES[2], ROWS_OF_2)
    for _ in range(2):
        async with opened(tmp_path, rhythm=Rhythm(least=1 << 60)) as outbox:
            assert (await outbox.check()).format == FORMAT
            assert (await outbox.check()).problems == []
            assert await informed(outbox) == {
                "namespace shop": (["shop/web"], "70", "70", 1),
                "namespace prod": (["prod/web"], "80", "80", 3),
            }
            assert [record.sequence for record in await everything(outbox)] == [3, 4, 5, 6, 7, 8]
            assert (outbox.body(1), outbox.last, outbox.sinks["audit"].settled) == (BODY, 8, 2)
    async with opened(tmp_path) as outbox:
        outbox.sinks.settle("audit", 8)
        await outbox.tidy()
        assert (await outbox.check()).problems == []
    assert rows_of(tmp_path, "SELECT seq FROM log") == [(1,), (5,)], "the last states"


async def test_a_file_of_format_3_keeps_its_objects_and_the_replay_that_was_under_way(tmp_path: Path) -> None:
    written(tmp_path, TABLES[3], ROWS_OF_3)
    for _ in range(2):
        async with opened(tmp_path) as outbox:
            assert (await outbox.check()).format == FORMAT
            assert (await outbox.check()).problems == []
            assert await informed(outbox) == {
                "namespace shop": (["shop/web"], "70", "70", 1),
                "namespace prod": (["prod/web"], "80", "80", 3),
            }
            records, _ = await outbox.sinks.read_errand("audit", 10)
            assert story(records) == ["added shop/web", "added prod/web"]
            assert [getattr(record, "replay", None) for record in records] == [0, 0]


@pytest.mark.parametrize(("number", "rows"), [(1, ROWS), (2, ROWS_OF_2), (3, ROWS_OF_3)])
async def test_a_file_that_was_brought_to_this_format_has_the_tables_of_a_new_one(
    tmp_path: Path, number: int, rows: str
) -> None:
    columns = (
        'SELECT t.name, c.name, c.type, c."notnull", c.dflt_value FROM sqlite_schema t, pragma_table_info(t.name) c'
    )
    older, newer = tmp_path / "older", tmp_path / "newer"
    for directory in (older, newer):
        directory.mkdir()
    written(older, TABLES[number], rows)
    for directory in (older, newer):
        async with opened(directory):
            pass

    assert set(rows_of(older, columns)) == set(rows_of(newer, columns))
