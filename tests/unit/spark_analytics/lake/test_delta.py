"""The Delta log of a table: commits are folded, one writer wins, others may read and compact, damage is mended or named."""

import json
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_analytics.lake import delta
from spark_analytics.lake.delta import CHECKPOINT_EVERY, GONE_HOURS, LAYOUT, Batch, Change, Snapshot, TableLog
from spark_analytics.lake.files import LakeBusy, LakeError, LocalFiles
from spark_analytics.lake.tables import TABLES, LakeTable
from spark_analytics.transforms.windows import DAY_MS
from tests.support.analytics.lake_files import NINE, write_rows

HOUR_MS = 3_600_000
INDEX = TABLES["index"]


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "lake")


@pytest.fixture
def log(files: LocalFiles) -> TableLog:
    return TableLog(files, INDEX)


def reopened(files: LocalFiles) -> Snapshot:
    """As another process sees it."""
    return TableLog(files, INDEX).snapshot()


def commits(files: LocalFiles) -> list[Path]:
    return sorted(Path(files.path_of("index/_delta_log")).glob("*.json"))


def add(files: LocalFiles, log: TableLog, name: str, begin: int = 0, end: int = 10, **change: object) -> Snapshot:
    return log.commit(log.snapshot(), Change(added=(write_rows(files, "index", name, begin, end),), **change))  # type: ignore[arg-type]


def test_a_table_nobody_wrote_to_is_empty(log: TableLog) -> None:
    assert log.snapshot() == Snapshot()
    assert log.clean() == 0
    assert log.check() == []


def test_changes_are_folded_in_order(files: LocalFiles, log: TableLog) -> None:
    a, b, c = (write_rows(files, "index", name, 0, rows) for name, rows in (("a", 10), ("b", 10), ("c", 20)))
    first = log.commit(log.snapshot(), Change(added=(a, b), batch=Batch("s", 0)))
    second = log.commit(first, Change(added=(c,), removed=(a.path, b.path)))
    third = log.commit(second, Change(watermarks={"g1": 5, "g2": 6}, missing=("g2",), late={NINE: 3}))
    assert third == log.snapshot() == reopened(files)
    assert third.files == {c.path: c}
    assert third.files[c.path].begin_ms == NINE
    assert (third.batch, third.watermarks, third.missing, third.late) == (
        Batch("s", 0), {"g1": 5, "g2": 6}, ("g2",), {NINE: 3},
    )  # fmt: skip
    fourth = log.commit(third, Change(late={NINE: 4, NINE + HOUR_MS: 1}))
    assert fourth.late == reopened(files).late == {NINE: 7, NINE + HOUR_MS: 1}
    assert log.commit(fourth, Change(is_late_done=True)).late == reopened(files).late == {}


def test_a_commit_says_how_many_rows_a_file_has_and_their_least_and_greatest_values(
    files: LocalFiles, log: TableLog
) -> None:
    add(files, log, "a", 5, 12)
    actions = DeltaTable(files.path_of("index")).get_add_actions(flatten=True)
    said = {name: actions.column(name)[0].as_py() for name in ("num_records", "min.sequence", "max.sequence")}
    assert (said["num_records"], said["min.sequence"], said["max.sequence"]) == (7, 5, 11)


def test_a_broker_group_that_is_told_of_no_more_is_not_waited_for(files: LocalFiles, log: TableLog) -> None:
    first = log.commit(log.snapshot(), Change(watermarks={"g1": 5, "gone": 1}))
    second = log.commit(first, Change(watermarks={"g1": 9}))
    assert second.watermarks == reopened(files).watermarks == {"g1": 9}


def test_of_two_writers_on_one_snapshot_the_second_changes_nothing(files: LocalFiles, log: TableLog) -> None:
    other = TableLog(files, INDEX)
    base = other.snapshot()
    first = add(files, log, "a")
    with pytest.raises(LakeBusy, match="run the job again"):
        other.commit(base, Change(added=(write_rows(files, "index", "b", 0, 1),)))
    base = other.snapshot()
    log.commit(first, Change(watermarks={"g1": 1}))
    with pytest.raises(LakeBusy, match="run the job again"):
        other.commit(base, Change(watermarks={"g1": 2}))
    assert (list(reopened(files).files), reopened(files).watermarks) == (list(first.files), {"g1": 1})
    assert other.commit(other.snapshot(), Change(watermarks={"g1": 3})).version == 3


def test_a_change_that_does_not_fit_is_refused_before_it_is_written(files: LocalFiles, log: TableLog) -> None:
    base = add(files, log, "a")
    (there,) = base.files.values()
    for change in (Change(removed=("b/c.parquet",)), Change(added=(there,))):
        with pytest.raises(LakeError, match="does not fit"):
            log.commit(base, change)
    assert reopened(files).version == 1


def test_commits_of_other_programs_do_no_harm(files: LocalFiles, log: TableLog) -> None:
    for number in range(3):
        add(files, log, f"f{number}", number * 10, number * 10 + 10, batch=Batch("s", number))
    before = log.commit(log.snapshot(), Change(watermarks={"g1": 5}, missing=("g2",)))
    DeltaTable(files.path_of("index")).optimize.compact()
    for found in (log.snapshot(), reopened(files)):
        assert found.version > before.version
        assert (found.batch, found.watermarks, found.missing) == (Batch("s", 2), {"g1": 5}, ("g2",))
        (whole,) = found.files.values()
        assert (whole.rows, whole.begin_ms) == (30, NINE)
    assert len(add(files, log, "g", 30, 40).files) == 2


def test_readers_fold_from_a_checkpoint_of_the_log(files: LocalFiles, log: TableLog) -> None:
    snapshot = add(files, log, "a", batch=Batch("s", 7), watermarks={"g1": 5})
    while snapshot.version < CHECKPOINT_EVERY + 2:
        snapshot = log.commit(snapshot, Change())
    names = files.names("index/_delta_log")
    assert f"{CHECKPOINT_EVERY:020}.checkpoint.parquet" in names
    assert reopened(files) == snapshot
    assert (snapshot.batch, snapshot.watermarks) == (Batch("s", 7), {"g1": 5})


@pytest.mark.parametrize("is_named", [True, False])
def test_a_torn_checkpoint_of_the_log_is_made_again(files: LocalFiles, log: TableLog, is_named: bool) -> None:
    snapshot = add(files, log, "a")
    while snapshot.version < CHECKPOINT_EVERY:
        snapshot = log.commit(snapshot, Change())
    folder = Path(files.path_of("index/_delta_log"))
    (path,) = folder.glob("*.checkpoint.parquet")
    os.truncate(path, path.stat().st_size // 2)
    if not is_named:
        (folder / "_last_checkpoint").write_bytes(b'{"vers')
    again = TableLog(files, INDEX)
    assert again.check() == ["index: wrote the checkpoint of its log again, which was torn"]
    assert again.check() == []
    assert again.snapshot() == reopened(files) == snapshot
    assert json.loads((folder / "_last_checkpoint").read_bytes())["version"] == CHECKPOINT_EVERY


@pytest.mark.parametrize("name", [b'{"vers', b"", b'{"version":40,"size":1}'])
def test_what_names_a_checkpoint_that_is_not_there_is_taken_back(files: LocalFiles, log: TableLog, name: bytes) -> None:
    snapshot = add(files, log, "a")
    while snapshot.version < CHECKPOINT_EVERY:
        snapshot = log.commit(snapshot, Change())
    Path(files.path_of("index/_delta_log/_last_checkpoint")).write_bytes(name)
    for path in commits(files)[:-1]:
        path.unlink()
    again = TableLog(files, INDEX)
    assert again.check() == ["index: took back what names the checkpoint of its log, and named none"]
    assert again.check() == []
    assert again.snapshot() == snapshot


@pytest.mark.parametrize("damage", ["empty", "torn", "torn at a line's end", "file missing", "file short"])
def test_a_last_commit_that_a_power_cut_left_by_half_is_taken_back(
    files: LocalFiles, log: TableLog, damage: str
) -> None:
    before = add(files, log, "a", 0, 10, batch=Batch("s", 0))
    add(files, log, "b", 10, 20, batch=Batch("s", 1))
    last, rows = commits(files)[-1], next(Path(files.path_of("index")).glob("b/*/*/*.parquet"))
    why = {
        "empty": "is empty",
        "torn": "is torn",
        "torn at a line's end": "is torn",
        "file missing": "names b/date=2026-11-21/hour=09/part-0.parquet, which is missing",
        "file short": f"names b/date=2026-11-21/hour=09/part-0.parquet with {rows.stat().st_size} bytes, which has 7",
    }
    if damage == "empty":
        last.write_bytes(b"")
    elif damage == "torn":
        last.write_bytes(last.read_bytes()[:-20])
    elif damage == "torn at a line's end":
        last.write_bytes(last.read_bytes().rpartition(b"\n")[0])
    elif damage == "file missing":
        rows.unlink()
    else:
        os.truncate(rows, 7)
    again = TableLog(files, INDEX)
    assert again.check() == [f"index: took back commit 2, which {why[damage]}"]
    assert again.snapshot() == reopened(files) == before
    assert again.check() == []
    shutil.rmtree(Path(files.path_of("index/b")))
    assert add(files, again, "b", 10, 20, batch=Batch("s", 1)).batch == Batch("s", 1)


def test_what_was_confirmed_is_not_taken_back_because_its_files_are_gone(files: LocalFiles, log: TableLog) -> None:
    for number in range(3):
        add(files, log, f"f{number}", number, number + 1)
    for path in Path(files.path_of("index")).glob("f*/*/*/*.parquet"):
        path.unlink()
    with pytest.raises(
        LakeError, match=r"commit 2 names f1/.*, which is missing, and may have been confirmed: restore"
    ):
        TableLog(files, INDEX).check()


def test_several_commits_of_others_that_nobody_synced_are_taken_back_up_to_a_limit(
    files: LocalFiles, log: TableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "TAKEN_BACK_MAX", 2)
    for number in range(4):
        add(files, log, f"f{number}", number, number + 1)
    for path in commits(files)[-2:]:
        path.write_bytes(b"")
    assert len(TableLog(files, INDEX).check()) == 2
    for path in commits(files):
        path.write_bytes(b"")
    with pytest.raises(LakeError, match="commit 0 is empty"):
        TableLog(files, INDEX).check()


def test_a_damaged_commit_with_others_behind_it_is_named(files: LocalFiles, log: TableLog) -> None:
    for number in range(3):
        add(files, log, f"f{number}", number, number + 1)
    commits(files)[2].write_bytes(b"half")
    assert TableLog(files, INDEX).check() == []
    with pytest.raises(LakeError, match=r"lake/index can't be read; restore its _delta_log"):
        reopened(files)


def test_a_commit_is_synced_with_its_folder_and_with_those_of_other_programs(
    files: LocalFiles, log: TableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def told(fd: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), files.path_of("")))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", told)
    add(files, log, "a")
    names = [f"index/_delta_log/{version:020}.json" for version in range(4)]
    assert set(synced) == {names[0], names[1], "index/_delta_log", "index", "."}
    DeltaTable(files.path_of("index")).alter.set_table_properties({"delta.appendOnly": "false"})
    synced.clear()
    add(files, log, "b", 10, 20)
    assert synced == [names[2], names[3], "index/_delta_log", "index", "."]


def test_files_that_stopped_counting_go_after_a_while_with_their_folders(files: LocalFiles) -> None:
    clock = [int(time.time() * 1000) - (GONE_HOURS * HOUR_MS - 60_000)]
    log = TableLog(files, INDEX, lambda: clock[0])
    first = add(files, log, "a")
    (path,) = first.files
    log.commit(first, Change(removed=(path,)))
    assert log.clean() == 0
    assert Path(files.path_of(f"index/{path}")).exists(), "who began before may read on"
    clock[0] -= 5 * 60_000
    second = add(files, log, "b", 10, 20)
    log.commit(second, Change(removed=tuple(second.files)))
    assert log.clean() == 1
    assert sorted(files.names("index")) == ["_delta_log", "a"]
    version = reopened(files).version
    assert log.clean() == 0
    assert reopened(files).version == version, "what is gone already is not committed again"
    assert reopened(files).files == {}
    assert log.commit(log.snapshot(), Change(watermarks={"g1": 1})).watermarks == reopened(files).watermarks


def test_what_a_killed_writer_left_is_deleted_once_a_day_when_it_is_old(files: LocalFiles) -> None:
    clock = [int(time.time() * 1000)]
    log = TableLog(files, INDEX, lambda: clock[0])
    add(files, log, "a")
    left = write_rows(files, "index", "killed", 0, 5)
    place = Path(files.path_of(f"index/{left.path}"))
    assert log.clean() == 0
    old = time.time() - 25 * 3_600
    os.utime(place, (old, old))
    clock[0] += 23 * HOUR_MS
    assert log.clean() == 0, "it was looked for today"
    clock[0] += HOUR_MS
    assert log.clean() == 1
    assert sorted(files.names("index")) == ["_delta_log", "a"]
    assert reopened(files).swept_ms == clock[0]
    assert len(reopened(files).files) == 1


def test_old_commits_go_when_a_checkpoint_has_them(files: LocalFiles, log: TableLog) -> None:
    snapshot = add(files, log, "a", watermarks={"g1": 5})
    while snapshot.version < CHECKPOINT_EVERY + 1:
        snapshot = log.commit(snapshot, Change())
    old = time.time() - 3 * 86_400
    for path in commits(files)[:-2]:
        os.utime(path, (old, old))
    assert TableLog(files, INDEX).clean() == 0
    assert len(commits(files)) < 10
    assert (reopened(files).files, reopened(files).watermarks) == (snapshot.files, {"g1": 5})


@pytest.mark.parametrize(
    ("said", "why"),
    [("2", "has version 2 of the lake's layout, and this PyQMQ knows 1: update it"), (None, "of another program")],
)
def test_a_table_of_another_layout_is_refused(files: LocalFiles, log: TableLog, said: str | None, why: str) -> None:
    add(files, log, "a")
    first = commits(files)[0]
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    (configuration,) = [line["metaData"]["configuration"] for line in lines if "metaData" in line]
    configuration.pop(LAYOUT)
    if said is not None:
        configuration[LAYOUT] = said
    first.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(LakeError, match=why):
        reopened(files)


def test_a_table_in_the_old_format_is_refused_with_what_to_delete(files: LocalFiles, log: TableLog) -> None:
    files.create("index/_log/00000000000000000001.json", b"{}")
    with pytest.raises(
        LakeError, match=r"lake is in the format of an earlier version: delete it; the next run reads again"
    ):
        log.check()


def test_a_table_with_other_folders_is_refused_with_what_to_delete(files: LocalFiles, log: TableLog) -> None:
    add(files, log, "a")
    by_day = TableLog(files, replace(INDEX, part_ms=DAY_MS))
    with pytest.raises(LakeError, match=r"lake is in the format of an earlier version: delete it"):
        by_day.snapshot()
    with pytest.raises(LakeError, match=r"lake is in the format of an earlier version: delete it"):
        by_day.add_columns()


def test_a_table_by_day_has_a_partition_for_each_day(files: LocalFiles) -> None:
    table = replace(INDEX, part_ms=DAY_MS)
    log, day = TableLog(files, table), NINE - NINE % DAY_MS
    first, second, third = (
        write_rows(files, "index", name, number * 10, number * 10 + 10, begin_ms, table)
        for number, (name, begin_ms) in enumerate((("a", day), ("b", day), ("c", day + DAY_MS)))
    )
    log.commit(log.snapshot(), Change(added=(first, second, third)))
    found = TableLog(files, table).snapshot()
    assert found.files == {item.path: item for item in (first, second, third)}
    assert DeltaTable(files.path_of("index")).metadata().partition_columns == ["date"]
    of_day = DeltaTable(files.path_of("index")).to_pyarrow_table(filters=[("date", "=", date(2026, 11, 21))])
    assert sorted(of_day.column("sequence").to_pylist()) == list(range(20))
    DeltaTable(files.path_of("index")).optimize.compact()
    assert sorted((item.rows, item.begin_ms) for item in log.snapshot().files.values()) == [
        (10, day + DAY_MS), (20, day),
    ]  # fmt: skip
    first_day = next(item for item in log.snapshot().files.values() if item.begin_ms == day)
    left = log.commit(log.snapshot(), Change(removed=(first_day.path,)))
    assert TableLog(files, table).snapshot().files == left.files
    assert len(left.files) == 1
    assert log.check() == []


def later(change: Callable[[list[StructField]], list[StructField]]) -> LakeTable:
    """The table in a later version."""
    return LakeTable("index", StructType(change(list(INDEX.schema.fields))), "stored_at", INDEX.order, 15)


def test_a_column_that_comes_is_added_in_one_commit_and_is_null_in_older_files(
    files: LocalFiles, log: TableLog
) -> None:
    before = add(files, log, "a", watermarks={"g1": 5})
    newer = TableLog(files, later(lambda fields: [*fields, StructField("zone", StringType())]))
    assert newer.add_columns() == ["zone"]
    assert newer.add_columns() == []
    assert newer.snapshot().watermarks == {"g1": 5}
    assert newer.snapshot().version == before.version + 1
    assert DeltaTable(files.path_of("index")).to_pyarrow_table().column("zone").to_pylist() == [None] * 10
    assert add(files, log, "b", 10, 20).version == before.version + 2, "an older version writes on"


def test_a_column_of_another_type_is_refused(files: LocalFiles, log: TableLog) -> None:
    add(files, log, "a")
    other = later(lambda fields: [StructField("subject", LongType()) if f.name == "subject" else f for f in fields])
    with pytest.raises(
        LakeError, match=r'column subject of .* has type "string", and this PyQMQ writes "long": delete'
    ):
        TableLog(files, other).snapshot()


def test_files_of_another_program_with_another_schema_are_named(files: LocalFiles, log: TableLog) -> None:
    add(files, log, "a")
    same = DeltaTable(files.path_of("index")).to_pyarrow_table().slice(0, 2)
    write_deltalake(files.path_of("index"), same, mode="append")
    assert TableLog(files, INDEX).check() == []
    other = write_rows(files, "index", "other", 0, 5)
    place = Path(files.path_of(f"index/{other.path}"))
    pq.write_table(pa.table({"subject": [1, 2], "sequence": [1, 2]}), place)
    action = AddAction(other.path, place.stat().st_size, {"date": "2026-11-21", "hour": "9"}, 0, True, "{}")
    table = DeltaTable(files.path_of("index"))
    table.create_write_transaction([action], "append", table.schema(), ["date", "hour"])
    with pytest.raises(
        LakeError, match=r"commit 3 of another program added other/.*, whose column subject has type int64"
    ):
        TableLog(files, INDEX).check()
    DeltaTable(files.path_of("index")).restore(2)
    assert TableLog(files, INDEX).check() == []


@contextmanager
def full_disk() -> Iterator[None]:
    """No file can grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_said_and_leaves_the_table_as_it_was(files: LocalFiles, log: TableLog) -> None:
    item = write_rows(files, "index", "a", 0, 10)
    with full_disk(), pytest.raises(LakeError, match="lake/index can't be"):
        log.commit(log.snapshot(), Change(added=(item,)))
    assert reopened(files) == Snapshot()
    first = TableLog(files, INDEX).commit(Snapshot(), Change(added=(item,)))
    second = write_rows(files, "index", "b", 10, 20)
    with full_disk(), pytest.raises(LakeError, match="lake/index can't be written"):
        TableLog(files, INDEX).commit(first, Change(added=(second,)))
    assert TableLog(files, INDEX).check() == []
    assert reopened(files) == first
    assert TableLog(files, INDEX).commit(first, Change(added=(second,))).version == 2


def test_a_checkpoint_of_the_log_that_a_full_disk_leaves_by_half_is_made_again(
    files: LocalFiles, log: TableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "CHECKPOINT_EVERY", 2)
    first = add(files, log, "a")
    sync = log._sync
    limit = ExitStack()

    def then_full() -> None:
        sync()
        limit.enter_context(full_disk())

    monkeypatch.setattr(log, "_sync", then_full)
    with limit, pytest.raises(LakeError, match="its log can't be written"):
        log.commit(first, Change(watermarks={"g1": 1}))
    again = TableLog(files, INDEX)
    again.check()
    assert again.snapshot().watermarks == {"g1": 1}, "the commit counts"
    for number in range(2, 5):
        again.commit(again.snapshot(), Change(watermarks={"g1": number}))
    assert reopened(files).watermarks == {"g1": 4}


def test_a_folder_that_is_a_file_is_said(files: LocalFiles, log: TableLog) -> None:
    Path(files.path_of("")).mkdir()
    Path(files.path_of("index")).write_text("a file")
    with pytest.raises(LakeError, match="lake/index"):
        log.commit(Snapshot(), Change(watermarks={"g1": 1}))
