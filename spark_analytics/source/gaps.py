"""Records of data that could not be read: one small JSON file for each gap, in a folder that driver and executors reach.

A file is named after the start of its gap, so a repeated task writes the same file again, larger if retention has continued.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs

from qmq.errors import QmqError
from spark_analytics.source.folders import open_folder

SUFFIX = ".hole.json"
HOLE_BYTES_MAX = 64 << 10

Reason = Literal["retention", "damage", "forgotten", "rebuilt", "emptied"]
"""`forgotten`: a group was forgotten, and its history with it; `rebuilt`: a node rebuilt a history from its log; `emptied`: a
broker group was started with an empty folder. All three are [begin, begin), as the number of entries that were not read is
unknown."""


class GapFound(QmqError):
    """Requested rows are no longer available."""

    code = "reading.gap"


@dataclass(frozen=True, slots=True)
class Hole:
    """Rows [begin, end) that could not be read. `subject` is the hour, YYYYMMDDHH, of a delay node's."""

    table: str
    broker_group: str
    subject: str
    group: str
    begin: int
    end: int
    reason: Reason

    def __str__(self) -> str:
        of_group = f", group {self.group}" if self.group else ""
        return f"{self.table} of {self.broker_group}, subject {self.subject}{of_group}: [{self.begin}, {self.end})"


def refuse(hole: Hole) -> GapFound:
    """The error for a hole."""
    why = (
        "retention deleted them before they were read; read more often, or increase the retention"
        if hole.reason == "retention"
        else "they are corrupted on the node's disk; see `qmq log inspect`"
    )
    return GapFound(
        f"{hole} can't be read: {why}. To continue without them and record the gap, set options on_gap=record and holes",
        code=f"reading.{hole.reason}",
    )


def record(folder: str, hole: Hole) -> None:
    """Write a hole down; it is there whole, or not at all.

    Raises:
        OSError: the folder can't be written.
    """
    system, path = open_folder(folder, "holes")
    key = json.dumps([hole.table, hole.broker_group, hole.subject, hole.group, hole.begin])
    name = blake2b(key.encode(), digest_size=12).hexdigest()
    body = json.dumps({**asdict(hole), "found_at_ms": time.time_ns() // 1_000_000}).encode()
    system.create_dir(path, recursive=True)
    unseen = f"{path}/.{name}.{uuid4().hex}"
    with system.open_output_stream(unseen) as stream:
        stream.write(body)
    system.move(unseen, f"{path}/{name}{SUFFIX}")


def recorded(folder: str) -> Iterator[tuple[Hole, int]]:
    """Every hole written down there, and when it was found (ms); none when the folder does not exist yet.

    Raises:
        OSError: the folder can't be read.
    """
    system, path = open_folder(folder, "holes")
    files = system.get_file_info(pyarrow.fs.FileSelector(path, allow_not_found=True))
    for info in sorted(files, key=lambda found: str(found.path)):
        if info.is_file and info.path.endswith(SUFFIX):
            with system.open_input_stream(info.path) as stream:
                found: dict[str, Any] = json.loads(stream.read(HOLE_BYTES_MAX))
            found_at_ms = int(found.pop("found_at_ms"))
            yield Hole(**found), found_at_ms


def recorded_batch(folder: str, schema: pa.Schema) -> pa.RecordBatch:
    """All holes as rows of table `holes`."""
    rows = [
        {**asdict(hole), "found_at": pa.scalar(at_ms * 1000, pa.timestamp("us", tz="UTC"))}
        for hole, at_ms in recorded(folder)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schema)
