"""Tables of a profiled bridge, found in its log."""

from __future__ import annotations

from benchmarks.stages import tables

TABLE = """Since the last profile: 0.10 s of CPU in 1.0 s, 100 records, 100 a second
STAGE    µs/RECORD  SHARE  CALLS  RECORDS
receive  1.0        10.0%  5      100
THREAD       WAKE-UPS  WAKE-UPS/RECORD  µs/RECORD
all threads  5         0.05             2.00"""


def test_tables_stand_between_lines_of_the_log() -> None:
    log = f'{{"event":"ready"}}\n{TABLE}\n{{"event":"ended"}}\n{TABLE}\nThe whole run: 1 s'

    assert tables(log) == [TABLE, TABLE]


def test_a_table_that_is_not_complete_is_left_out() -> None:
    assert tables(TABLE.rpartition("\n")[0]) == []
