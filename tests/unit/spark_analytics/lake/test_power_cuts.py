"""Power cuts: a file that was not synced is missing, empty, torn or whole. The table has each confirmed row once, and the writer
continues."""

import random
from pathlib import Path

import pytest

from spark_analytics.lake.delta import Batch, Change, TableLog
from spark_analytics.lake.tables import TABLES
from tests.support.analytics.lake_files import Disk, PowerCut, write_rows

POINTS = 200
INDEX = TABLES["index"]
ROWS = 10


class Writer:
    """Fills a table as ingestion does: a batch is written, synced, committed; now and then all files become one."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.names = 0

    def _file(self, begin: int, end: int) -> Change:
        self.names += 1
        item = write_rows(self.disk, "index", f"f{self.names}", begin, end)
        self.disk.sync([f"index/{item.path}"])
        return Change(added=(item,))

    def append(self, log: TableLog, number: int) -> None:
        """Batch `number`, unless the table has it."""
        base = log.snapshot()
        if base.batch is not None and number <= base.batch.number:
            return
        added = self._file(number * ROWS, number * ROWS + ROWS).added
        log.commit(base, Change(added=added, batch=Batch("s", number), watermarks={"g1": number}))

    def compact(self, log: TableLog) -> None:
        """One file of all. As in the lake it is read, and counted, before it counts."""
        base = log.snapshot()
        rows = sum(item.rows for item in base.files.values())
        added = self._file(0, rows).added
        log.commit(base, Change(added=added, removed=tuple(base.files), is_same_data=True))


def sequences(disk: Disk, log: TableLog) -> list[int]:
    import pyarrow.parquet as pq

    files = [disk.path_of(f"index/{path}") for path in log.snapshot().files]
    return sorted(
        n
        for path in files
        for n in pq.read_table(path, columns=["sequence"], partitioning=None)["sequence"].to_pylist()
    )


def run(writer: Writer, confirmed: list[int], batches: int) -> None:
    """Open the table as a run does, and write on until there are so many batches, or the power goes."""
    log = TableLog(writer.disk, INDEX)
    log.check()
    found = log.snapshot()
    there = sequences(writer.disk, log)
    assert there == list(range(len(there))), "each row once"
    assert len(there) % ROWS == 0, "batches are whole"
    assert len(there) >= len(confirmed), "what was confirmed is there"
    assert found.watermarks == ({"g1": found.batch.number} if found.batch is not None else {})
    for number in range(batches):
        writer.append(log, number)
        confirmed[:] = range(max(len(confirmed), number * ROWS + ROWS))
        if number % 3 == 2:
            writer.compact(log)


@pytest.mark.parametrize("seed", range(4))
def test_at_any_power_cut_each_confirmed_row_is_there_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_analytics.lake.delta.CHECKPOINT_EVERY", 4)
    made = random.Random(seed)
    cuts = 0
    while cuts < POINTS // 4:
        writer = Writer(Disk(tmp_path / f"lake{cuts}", made))
        confirmed: list[int] = []
        batches = 0
        # Several in a row, so that one meets what another left.
        for _ in range(5):
            writer.disk.steps_left = made.randrange(12)
            batches += 3
            try:
                run(writer, confirmed, batches)
            except PowerCut:
                cuts += 1
                writer.disk.cut()
        writer.disk.steps_left = -1
        run(writer, confirmed, batches)
        log = TableLog(writer.disk, INDEX)
        assert sequences(writer.disk, log) == list(range(batches * ROWS))
