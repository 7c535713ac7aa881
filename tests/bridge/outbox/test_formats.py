"""Files that an earlier kubedelta wrote."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from bridge.model.packing import pack
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from bridge.outbox.database import FILE
from bridge.outbox.schema import FORMAT
from tests.bridge.outbox.opened import everything, opened, rows_of, story, tell
from tests.kit.follower import Server, followers
from tests.kit.informed import DEPLOYMENTS, PODS

TABLES = Path(__file__).with_name("format_1.sql").read_text(encoding="utf-8")
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


def written_by_version_1(directory: Path) -> None:
    connection = apsw.Connection(str(directory / FILE))
    connection.execute(TABLES)
    connection.execute(ROWS, {"body": pack(BODY)})
    connection.close()


async def informed(outbox: Outbox) -> dict[str, object]:
    known, left = await outbox.ledger.adopt(PODS, [SHOP, PROD])
    assert left == 0
    return {
        f"{scope}": found and ([key for key, _ in found.objects], found.position, found.newest, found.epoch)
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


async def test_a_file_that_was_brought_to_this_format_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    columns = (
        'SELECT t.name, c.name, c.type, c."notnull", c.dflt_value FROM sqlite_schema t, pragma_table_info(t.name) c'
    )
    older, newer = tmp_path / "older", tmp_path / "newer"
    for directory in (older, newer):
        directory.mkdir()
    written_by_version_1(older)
    for directory in (older, newer):
        async with opened(directory):
            pass

    assert set(rows_of(older, columns)) == set(rows_of(newer, columns))
