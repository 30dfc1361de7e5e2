"""Files of a lake's table without Spark, and a disk that a power cut leaves as disks do."""

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spark_analytics.lake.delta import DataFile
from spark_analytics.lake.files import LakeFiles, LocalFiles
from spark_analytics.lake.tables import TABLES, LakeTable

NINE = int(datetime(2026, 11, 21, 9, tzinfo=UTC).timestamp() * 1000)


def write_rows(
    files: LakeFiles,
    table: str,
    name: str,
    begin: int,
    end: int,
    begin_ms: int = NINE,
    kind: LakeTable = TABLES["index"],
) -> DataFile:
    """A file of index rows with these sequences, of an hour or day, not synced."""
    at = datetime.fromtimestamp(begin_ms / 1000, UTC)
    path = f"{name}/{at.strftime(kind.folder)}/part-0.parquet"
    place = files.path_of(f"{table}/{path}")
    if files.is_local:
        Path(place).parent.mkdir(parents=True)
    count = end - begin
    columns = {
        "broker_group": pa.array(["g1"] * count),
        "subject": pa.array(["orders"] * count),
        "sequence": pa.array(range(begin, end), pa.int64()),
        "stored_at": pa.array([begin_ms * 1000] * count, pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), place, filesystem=files.system)
    stats = {"numRecords": count, "minValues": {"sequence": begin}, "maxValues": {"sequence": end - 1}}
    return DataFile(path, count, files.system.get_file_info(place).size, begin_ms, stats=json.dumps(stats))


class PowerCut(Exception):
    """The power is gone."""


class Disk(LocalFiles):
    """A folder that knows what was synced. At a chosen step the power goes: see `cut`."""

    def __init__(self, folder: Path, random: random.Random) -> None:
        super().__init__(folder)
        self.folder, self.random = folder, random
        self.steps_left = -1
        self._durable: dict[str, bytes] = {}

    def sync(self, paths: Iterable[str]) -> None:
        """Sync, or lose the power before, while or after it."""
        wanted = list(paths)
        is_cut = self.steps_left == 0
        self.steps_left -= 1
        if is_cut:
            wanted = [path for path in wanted if self.random.random() < 0.5]
        super().sync(wanted)
        for path in wanted:
            place = self.folder / path
            if place.is_file():
                self._durable[path] = place.read_bytes()
        if is_cut:
            raise PowerCut

    def cut(self) -> None:
        """Leave of each file that was not synced since it was written nothing, an empty file, a part (also whole
        lines), or all of it."""
        for place in [found for found in self.folder.rglob("*") if found.is_file()]:
            path = place.relative_to(self.folder).as_posix()
            content, known = place.read_bytes(), self._durable.get(path)
            if content == known:
                continue
            parts = [content[: self.random.randrange(len(content) + 1)], content.rpartition(b"\n")[0]]
            left = self.random.choice([known, b"", *parts, content])
            if left is None:
                place.unlink()
            else:
                place.write_bytes(left)
        # What is left was on the disk.
        self._durable = {
            place.relative_to(self.folder).as_posix(): place.read_bytes()
            for place in self.folder.rglob("*")
            if place.is_file()
        }
        self.steps_left = -1
