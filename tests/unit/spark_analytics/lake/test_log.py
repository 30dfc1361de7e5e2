"""The log of a table: changes are folded, one writer wins, what is old is forgotten, damage is named."""

import json
from pathlib import Path

import pytest

from spark_analytics.lake.files import LakeBusy, LakeError, LocalFiles
from spark_analytics.lake.log import SNAPSHOT_EVERY, Batch, Change, DataFile, Snapshot, TableLog

HOUR = "date=2026-11-21/hour=09"


def data(name: str, rows: int = 10) -> DataFile:
    return DataFile(f"{HOUR}/{name}.parquet", rows, 100 * rows)


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "lake")


@pytest.fixture
def log(files: LocalFiles) -> TableLog:
    return TableLog(files, "index", lambda: 1_000)


def reopened(files: LocalFiles) -> Snapshot:
    """As another process sees it."""
    return TableLog(files, "index").snapshot()


def test_a_table_nobody_wrote_to_is_empty(log: TableLog) -> None:
    assert log.snapshot() == Snapshot()


def test_changes_are_folded_in_order(files: LocalFiles, log: TableLog) -> None:
    first = log.commit(log.snapshot(), Change(added=(data("a"), data("b")), batch=Batch("s", 0)))
    second = log.commit(first, Change(added=(data("c", 20),), removed=(data("a").path, data("b").path)))
    third = log.commit(second, Change(watermarks={"g1": 5, "g2": 6}))
    assert third == log.snapshot() == reopened(files)
    assert list(third.files) == [data("c").path]
    assert third.files[data("c").path].rows == 20
    assert third.batch == Batch("s", 0)
    assert third.watermarks == {"g1": 5, "g2": 6}
    assert third.gone == {data("a").path: 1_000, data("b").path: 1_000}


def test_a_broker_group_that_is_told_of_no_more_is_not_waited_for(files: LocalFiles, log: TableLog) -> None:
    first = log.commit(log.snapshot(), Change(watermarks={"g1": 5, "gone": 1}))
    second = log.commit(first, Change(watermarks={"g1": 9}))
    assert second.watermarks == reopened(files).watermarks == {"g1": 9}


def test_of_two_writers_on_one_snapshot_the_second_changes_nothing(files: LocalFiles, log: TableLog) -> None:
    other = TableLog(files, "index")
    base = other.snapshot()
    log.commit(log.snapshot(), Change(added=(data("a"),)))
    with pytest.raises(LakeBusy, match="run the job again"):
        other.commit(base, Change(added=(data("b"),)))
    assert list(reopened(files).files) == [data("a").path]
    assert other.commit(other.snapshot(), Change(added=(data("b"),))).version == 2


def test_a_change_that_does_not_fit_is_refused_before_it_is_written(files: LocalFiles, log: TableLog) -> None:
    base = log.commit(log.snapshot(), Change(added=(data("a"),)))
    for change in (Change(removed=(data("b").path,)), Change(added=(data("a"),))):
        with pytest.raises(LakeError, match="does not fit"):
            log.commit(base, change)
    assert reopened(files).version == 1


def test_readers_fold_from_the_newest_snapshot_and_pruning_leaves_them_what_they_need(
    files: LocalFiles, log: TableLog, tmp_path: Path
) -> None:
    told = Change(batch=Batch("s", 7), watermarks={"g1": 5})
    snapshot = log.commit(log.snapshot(), told)
    for number in range(1, SNAPSHOT_EVERY + 3):
        snapshot = log.commit(snapshot, Change(added=(data(f"f{number}"),)))
    assert reopened(files) == snapshot
    assert log.prune() == SNAPSHOT_EVERY - 1
    assert reopened(files) == snapshot
    assert len(reopened(files).files) == SNAPSHOT_EVERY + 2
    assert (reopened(files).batch, reopened(files).watermarks) == (told.batch, told.watermarks)
    assert log.prune() == 0
    kept = sorted(path.name.lstrip("0") for path in (tmp_path / "lake/index/_log").iterdir())
    assert kept == ["50.json", "50.snapshot.json", "51.json", "52.json", "53.json"]


def test_files_that_were_deleted_are_forgotten_and_those_that_were_not_are_kept_in_mind(
    files: LocalFiles, log: TableLog
) -> None:
    first = log.commit(log.snapshot(), Change(added=(data("a"), data("b"), data("c"))))
    second = log.commit(first, Change(removed=(data("a").path, data("b").path)))
    third = log.commit(second, Change(forgotten=(data("a").path,)))
    assert set(third.gone) == {data("b").path}
    assert reopened(files) == third
    log.prune()
    assert reopened(files) == third


def test_a_writer_killed_while_it_makes_a_change_leaves_none(files: LocalFiles, log: TableLog, tmp_path: Path) -> None:
    log.commit(log.snapshot(), Change(added=(data("a"),)))
    folder = tmp_path / "lake/index/_log"
    (folder / f".{2:020}.json.4711").write_text('{"at_ms": 1, "add')
    assert reopened(files).version == 1
    assert log.commit(log.snapshot(), Change(added=(data("b"),))).version == 2


def test_a_hole_in_the_log_is_named_and_not_read_over(files: LocalFiles, log: TableLog, tmp_path: Path) -> None:
    snapshot = log.snapshot()
    for name in "abc":
        snapshot = log.commit(snapshot, Change(added=(data(name),)))
    (tmp_path / f"lake/index/_log/{2:020}.json").unlink()
    with pytest.raises(LakeError, match=r"00002\.json.* is missing"):
        reopened(files)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", json.dumps({"at_ms": 1, "added": [["x"]]}).encode()])
def test_a_damaged_change_is_named(files: LocalFiles, log: TableLog, tmp_path: Path, content: bytes) -> None:
    log.commit(log.snapshot(), Change(added=(data("a"),)))
    (tmp_path / f"lake/index/_log/{1:020}.json").write_bytes(content)
    with pytest.raises(LakeError, match=r"00001\.json is damaged"):
        reopened(files)
