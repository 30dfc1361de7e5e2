"""A partition is read whole, or what is missing is said."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from broker_node.storage.actions import RecordKind
from qmq.errors import ConnectionLost, ReadRefused, SettingError
from qmq.protocol.bulk_read import UNKNOWN_SUBJECT, EntriesPage
from spark_analytics.schemas import HOLES, INDEX, PROGRESS
from spark_analytics.source import reading
from spark_analytics.source.gaps import GapFound, Hole, record, recorded, recorded_batch
from spark_analytics.source.partitions import Bundle, Range
from spark_analytics.source.planning import NodeUnreadable
from spark_analytics.source.reading import Task, read_bundle
from spark_analytics.source.selection import Selection, Span
from tests.unit.spark_analytics.source.entries import NOW_MS, index_entries, progress_entry

SCHEMA = to_arrow_schema(INDEX, timezone="UTC")
WHOLE = Range("g1", "host:1", "orders", 0, 6)


class FakeReader:
    """A node that answers with these pages; a page may be an error."""

    pages: ClassVar[list[EntriesPage | Exception]] = []

    def __init__(self, address: str, token: str) -> None:
        assert (address, token) == ("host:1", "secret")

    def __enter__(self) -> "FakeReader":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def progress(self, subject: str, group: str, begin: int, end: int) -> Iterator[EntriesPage]:
        return self.index(subject, begin, end)

    def index(self, subject: str, begin: int, end: int) -> Iterator[EntriesPage]:
        for page in self.pages:
            if isinstance(page, Exception):
                raise page
            yield page


def page(first: int, *sizes: int) -> EntriesPage:
    return EntriesPage(0, 100, first, index_entries(*sizes, first_offset=1000 * first))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> type[FakeReader]:
    monkeypatch.setattr(reading, "NodeReader", FakeReader)
    return FakeReader


def read(on_gap: str = "error", holes: str = "", selection: Selection = Selection()) -> list[int]:
    """The sequences read of the range."""
    task = Task("index", SCHEMA, selection, "secret", on_gap, holes)  # type: ignore[arg-type]
    return [n for batch in read_bundle(task, Bundle((WHOLE,))) for n in batch.column("sequence").to_pylist()]


def test_all_pages_in_turn(answers: type[FakeReader]) -> None:
    answers.pages = [page(0, 1, 2, 3), page(3, 4, 5, 6)]
    assert read() == [0, 1, 2, 3, 4, 5]
    assert read(selection=Selection(times=Span((NOW_MS + 1) * 1000, (NOW_MS + 2) * 1000))) == [1, 4]


def test_sequences_of_a_later_log_are_shifted(answers: type[FakeReader], tmp_path: Path) -> None:
    base = 1 << 48
    answers.pages = [page(2, 1, 1, 1, 1)]
    task = Task("index", SCHEMA, Selection(), "secret", "record", str(tmp_path))
    (batch,) = read_bundle(task, Bundle((WHOLE._replace(sequence_base=base),)))
    assert batch.column("sequence").to_pylist() == [base + n for n in (2, 3, 4, 5)]
    assert [(hole.begin, hole.end) for hole, _ in recorded(str(tmp_path))] == [(base, base + 2)]


@pytest.mark.parametrize(("is_broadcast", "begins"), [(False, [7, 0]), (True, [7 + (1 << 48), 1 << 48])])
def test_positions_in_a_later_log_are_shifted(answers: type[FakeReader], is_broadcast: bool, begins: list[int]) -> None:
    """Pull sequences are a consumer's own, but a broadcast's are consume sequences. A forgotten group has no position."""
    entries = progress_entry(RecordKind.PULL, begin=7, end=9, after=40) + progress_entry(RecordKind.FORGET, after=-1)
    answers.pages = [EntriesPage(0, 2, 0, entries)]
    task = Task("progress", to_arrow_schema(PROGRESS, timezone="UTC"), Selection(), "secret", "error", "")
    group = Range("g1", "host:1", "orders", 0, 2, "billing", is_broadcast, base=100, sequence_base=1 << 48)
    (batch,) = read_bundle(task, Bundle((group,)))
    assert batch.column("position").to_pylist() == [100, 101]
    assert batch.column("next_sequence").to_pylist() == [40 + (1 << 48), -1]
    assert batch.column("begin").to_pylist() == begins


GONE = ReadRefused("no such subject", code=UNKNOWN_SUBJECT)
GAPS = {
    "at the begin": ([page(2, 1, 1, 1, 1)], [2, 3, 4, 5], [(0, 2, "retention")]),
    "between pages": ([page(0, 1), page(4, 1, 1)], [0, 4, 5], [(1, 4, "retention")]),
    "everything": ([page(6)], [], [(0, 6, "retention")]),
    "the subject went": ([page(0, 1, 1), GONE], [0, 1], [(2, 6, "retention")]),
    "damage": (
        [EntriesPage(0, 100, 0, index_entries(1, 1) + b"\xff" * 32 + index_entries(1, 1, 1, first_offset=2000))],
        [0, 1, 3, 4, 5],
        [(2, 3, "damage")],
    ),
    "a page that overlaps the one before": (
        [
            page(0, 1, 1, 1),
            EntriesPage(0, 100, 3, index_entries(1, first_offset=2) + index_entries(1, 1, first_offset=9)),
        ],
        [0, 1, 2, 4, 5],
        [(3, 4, "damage")],
    ),
}


@pytest.mark.parametrize(("pages", "rows", "holes"), GAPS.values(), ids=GAPS)
def test_a_gap_is_an_error_or_recorded(
    answers: type[FakeReader],
    tmp_path: Path,
    pages: list[EntriesPage | Exception],
    rows: list[int],
    holes: list[tuple[int, int, str]],
) -> None:
    answers.pages = pages
    with pytest.raises(GapFound, match=rf"\[{holes[0][0]}, {holes[0][1]}\) can't be read") as caught:
        read()
    assert caught.value.code == f"reading.{holes[0][2]}"
    for _ in range(2):
        assert read("record", str(tmp_path / "holes")) == rows
        found = [(hole.begin, hole.end, hole.reason) for hole, _ in recorded(str(tmp_path / "holes"))]
        assert found == holes, "once, however often the task runs"


def test_a_node_that_holds_less_than_it_said_is_an_error_even_where_gaps_are_recorded(
    answers: type[FakeReader], tmp_path: Path
) -> None:
    answers.pages = [page(0, 1, 1)]
    with pytest.raises(NodeUnreadable, match=r"g1 \(host:1\) holds subject 'orders' up to 2, but had reported 6"):
        read("record", str(tmp_path))


@pytest.mark.parametrize("error", [ConnectionLost("gone"), ReadRefused("no", code="reading.forbidden")])
def test_an_error_names_the_node(answers: type[FakeReader], error: Exception) -> None:
    answers.pages = [page(0, 1), error]
    with pytest.raises(NodeUnreadable, match=r"broker group g1 \(host:1\): "):
        read("record", "/nowhere")


def test_holes_are_written_whole_and_grow(tmp_path: Path) -> None:
    folder = tmp_path.as_uri() + "/a/b"
    for end in (5, 9):
        record(folder, Hole("index", "g1", "s/..", "", 3, end, "retention"))
    record(folder, Hole("index", "g1", "s/..", "", 20, 21, "damage"))
    record(str(tmp_path / "a" / "b"), Hole("progress", "g1", "s", "g", 3, 4, "damage"))
    (tmp_path / "a" / "b" / ".half-written").write_text("{")
    batch = recorded_batch(folder, to_arrow_schema(HOLES, timezone="UTC"))
    found = sorted((row["table"], row["begin"], row["end"]) for row in batch.to_pylist())
    assert found == [("index", 3, 9), ("index", 20, 21), ("progress", 3, 4)]
    assert isinstance(batch, pa.RecordBatch)
    assert recorded_batch(str(tmp_path / "none"), to_arrow_schema(HOLES, timezone="UTC")).num_rows == 0


@pytest.mark.parametrize("uri", ["{}", "file:{}", "file://{}"])
def test_the_folder_of_holes_is_a_path_or_a_uri_as_spark_takes_them(tmp_path: Path, uri: str) -> None:
    folder = uri.format(tmp_path / "with space" if uri == "{}" else tmp_path)
    record(folder, Hole("index", "g1", "s", "", 0, 1, "retention"))
    assert [hole.end for hole, _ in recorded(folder)] == [1]
    assert len(list(tmp_path.rglob("*.hole.json"))) == 1


def test_a_folder_that_cannot_be_opened_is_named() -> None:
    with pytest.raises(SettingError, match="option holes is 'gopher://x/y', which can't be opened"):
        list(recorded("gopher://x/y"))
