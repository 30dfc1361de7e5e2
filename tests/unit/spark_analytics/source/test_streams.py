"""What a stream's reader says to Spark, from what nodes hold."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from spark_analytics.schemas import PROGRESS
from spark_analytics.source import datasource
from spark_analytics.source.datasource import QmqStreamReader
from spark_analytics.source.gaps import Hole, recorded
from spark_analytics.source.offsets import Held, Key, Observed, Offset
from spark_analytics.source.options import ReadOptions, parse_options
from spark_analytics.source.partitions import Forgotten, Range

KEY: Key = ("g1", "orders", "billing")


@pytest.fixture
def histories(monkeypatch: pytest.MonkeyPatch) -> dict[Key, Held]:
    """What the nodes hold."""
    held: dict[Key, Held] = {}

    def observe(options: ReadOptions, listings: object) -> tuple[Observed, dict[Key, Range]]:
        places = {key: Range(key[0], "host:1", key[1], one.begin, one.end, key[2]) for key, one in held.items()}
        return Observed(dict(held), {"g1": 1_000}), places

    monkeypatch.setattr(datasource, "observe", observe)
    return held


@pytest.fixture
def reader(tmp_path: Path) -> QmqStreamReader:
    options = {"metaserver": "host:1", "table": "progress", "on_gap": "record", "holes": str(tmp_path)}
    return QmqStreamReader(parse_options(options), PROGRESS)


def read_on(reader: QmqStreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The offset behind all there is, and the partitions up to it."""
    end = reader.latestOffset(start, ReadAllAvailable())
    return end, [partition.value for partition in reader.partitions(start, end)]


def test_a_history_made_anew_is_read_from_where_it_was_complete_and_written_down(
    histories: dict[Key, Held], reader: QmqStreamReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasource, "entry_at", lambda options, one, at_ms: at_ms // 500)
    histories[KEY] = Held(0, 7, 0, began_at_ms=50)
    first, _ = read_on(reader, reader.initialOffset())
    assert Offset.of_json(first).ranges[KEY].next == 7
    histories[KEY] = Held(0, 3, 0, began_at_ms=90)
    _, (bundle,) = read_on(reader, first)
    assert [(one.begin, one.end, one.base) for one in bundle.ranges] == [(2, 3, 5)]
    assert [hole for hole, _ in recorded(str(tmp_path))] == [Hole("progress", *KEY, 7, 7, "rebuilt")]


def test_a_forgotten_group_is_a_row_and_one_made_again_comes_behind_it(
    histories: dict[Key, Held], reader: QmqStreamReader, tmp_path: Path
) -> None:
    histories[KEY] = Held(0, 7, 0, began_at_ms=50)
    first, _ = read_on(reader, reader.initialOffset())
    histories[KEY] = Held(0, 3, 0, began_at_ms=2_000)
    second, (forgotten,) = read_on(reader, first)
    assert forgotten == (Forgotten(*KEY, 7, 2_000),)
    [batch] = reader.read(InputPartition(forgotten))
    [row] = batch.to_pylist()
    assert (row["position"], row["kind"], row["next_sequence"]) == (7, "forget", -1)
    assert row["at"] == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    third, (bundle,) = read_on(reader, second)
    assert [(one.begin, one.end, one.base) for one in bundle.ranges] == [(0, 3, 8)]
    assert [hole for hole, _ in recorded(str(tmp_path))] == [Hole("progress", *KEY, 7, 7, "forgotten")]
    histories[KEY] = Held(0, 4, 0, began_at_ms=9_000)
    fourth, (forgotten,) = read_on(reader, third)
    assert forgotten == (Forgotten(*KEY, 11, 9_000),)
    assert reader.partitions(fourth, fourth) == []


def test_the_rest_of_a_forgotten_row_is_empty_and_columns_are_those_asked_for(tmp_path: Path) -> None:
    wanted = StructType([PROGRESS[name] for name in ("kind", "at", "consumer_id")])
    reader = QmqStreamReader(parse_options({"metaserver": "host:1", "table": "progress"}), wanted)
    [batch] = reader.read(InputPartition((Forgotten(*KEY, 1, 5), Forgotten(*KEY, 2, 6))))
    assert batch.schema.names == ["kind", "at", "consumer_id"]
    assert batch.column("consumer_id").null_count == 2


def test_a_process_that_only_plans_does_not_import_pandas() -> None:
    code = "import sys, spark_analytics.source.datasource; print('pandas' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
