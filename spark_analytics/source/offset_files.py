"""Offsets of streams with very many ranges: the offset that Spark keeps names a file, which has the ranges.

    {"ranges_file": "NUMBER-HASH.parquet", "complete_ms": {BROKER_GROUP: ms}, "logs": ...}

A file is on the disk before its offset is returned, and is never changed: its name has the hash of its bytes. Its number is one
above that of the offset that it follows. A batch that is planned again, however often, has the same number, and Spark keeps the
offsets of its last batches: so a number far enough below the newest one is of no offset that is kept.
"""

import os
import re
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from qmq.private_files import sync_folder
from spark_analytics.places import open_place
from spark_analytics.source.offsets import Offset, Place, StreamError

RANGES_INLINE_MAX = 20_000
"""Ranges above which an offset names a file, when the stream has a folder for them: some 0.7 MB of JSON."""
RANGES_WITHOUT_FOLDER_MAX = 200_000
"""Most ranges of a stream without such a folder: Spark parses and writes all of them several times a batch."""
OFFSETS_KEPT = 100
"""How many offsets Spark keeps by default (`spark.sql.streaming.minBatchesToRetain`)."""
FILES_MARGIN = 10
"""Further files that are kept: Spark deletes offsets after the batch that makes them too many."""
IN_FILE = "ranges_file"
_NAME = re.compile(r"(?P<is_unseen>\.?)(?P<number>\d+)-(?P<hash>[0-9a-f]{32})\.parquet")
_NAMES = ("broker_group", "subject", "group")
_NUMBERS = Place._fields
_CACHED = 2


class Offsets:
    """Offsets of one stream as Spark keeps them.

    `folder` is a path or URI of this stream alone; "": there is none. The last offsets are remembered, because Spark hands each of
    them in several times.
    """

    def __init__(self, folder: str, *, kept: int = OFFSETS_KEPT, inline_max: int = RANGES_INLINE_MAX) -> None:
        """`kept`: how many offsets Spark keeps; `inline_max`: ranges above which an offset names a file."""
        self._folder, self._kept, self._inline_max = folder, kept, inline_max
        self._last: dict[str, Offset] = {}

    def to_json(self, offset: Offset, after: dict[str, Any]) -> dict[str, Any]:
        """An offset as Spark keeps it; `after` is the one that it follows.

        Raises:
            StreamError: there are too many ranges for a stream without a folder.
            OSError: the folder can't be written.
        """
        count = len(offset.ranges)
        if not self._folder and count > RANGES_WITHOUT_FOLDER_MAX:
            raise StreamError(
                f"{count} ranges; a stream without option offsets can have {RANGES_WITHOUT_FOLDER_MAX}. Set the option to a folder"
                " of this stream alone",
                code="analytics.too_many_ranges",
            )
        if not self._folder or count <= self._inline_max:
            return offset.to_json()
        content = _encode(offset)
        number = _number(after) + 1
        name = f"{number}-{_hash(content)}.parquet"
        system, path = open_place(self._folder, "option offsets")
        _create(system, path, name, content)
        _delete_below(system, path, number - self._kept - FILES_MARGIN)
        self._remember(name, offset)
        return {IN_FILE: name} | Offset({}, offset.complete_ms, offset.logs).to_json(with_ranges=False)

    def of_json(self, found: dict[str, Any]) -> Offset:
        """Raises StreamError: it is not an offset of this source, or its file is missing or was changed."""
        if IN_FILE not in found:
            return Offset.of_json(found)
        name = str(found[IN_FILE])
        known = self._last.get(name)
        if known is None:
            rest = Offset.of_json(found)
            known = Offset(_decode(self._read(name)), rest.complete_ms, rest.logs)
            self._remember(name, known)
        return known

    def _remember(self, name: str, offset: Offset) -> None:
        self._last[name] = offset
        while len(self._last) > _CACHED:
            del self._last[next(iter(self._last))]

    def _read(self, name: str) -> bytes:
        match = _NAME.fullmatch(name)
        if match is None or match["is_unseen"]:
            raise StreamError(
                f"the checkpoint's offset was not written by data source qmq: its file is named {name[:80]!r}"
            )
        if not self._folder:
            raise StreamError(
                f"the checkpoint's offset is in file {name}: set option offsets to the folder that the stream had before"
            )
        system, path = open_place(self._folder, "option offsets")
        file = f"{path}/{name}"
        try:
            with system.open_input_stream(file) as stream:
                content: bytes = stream.read()
        except FileNotFoundError as error:
            raise StreamError(
                f"file {file}, which the checkpoint's offset names, is missing: restore it, set option offsets to the folder"
                " that has it, or start again with a new checkpoint",
                code="analytics.offset_missing",
            ) from error
        if _hash(content) != match["hash"]:
            raise StreamError(
                f"file {file}, which has the checkpoint's offset, was changed after it was written: restore it, or start"
                " again with a new checkpoint",
                code="analytics.offset_changed",
            )
        return content


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _number(after: dict[str, Any]) -> int:
    """The number of an offset's file; 0: its ranges are in no file."""
    match = _NAME.fullmatch(str(after.get(IN_FILE, "")))
    return int(match["number"]) if match else 0


def _encode(offset: Offset) -> bytes:
    """Ranges as a Parquet file: a column for each part of the key, then for each of the place."""
    names = zip(*offset.ranges, strict=True)
    numbers = zip(*offset.ranges.values(), strict=True)
    columns = [pa.array(column, pa.string()) for column in names] + [pa.array(column, pa.int64()) for column in numbers]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table(columns, names=[*_NAMES, *_NUMBERS]),
        sink,
        compression="zstd",
        use_dictionary=list(_NAMES),
        column_encoding=dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED"),
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _decode(content: bytes) -> dict[tuple[str, str, str], Place]:
    table = pq.read_table(pa.BufferReader(content), read_dictionary=list(_NAMES))
    names = []
    for name in _NAMES:
        column = table.column(name).combine_chunks()
        texts = column.dictionary.to_pylist()
        names.append([texts[index] for index in column.indices.to_numpy().tolist()])
    numbers = [table.column(name).to_numpy().tolist() for name in _NUMBERS]
    return dict(zip(zip(*names, strict=True), map(Place._make, zip(*numbers, strict=True)), strict=True))


def _create(system: pyarrow.fs.FileSystem, path: str, name: str, content: bytes) -> None:
    """Create a file whole or not at all; on a local file system it is on the disk, with the folders that lead to it."""
    is_local = isinstance(system, pyarrow.fs.LocalFileSystem)
    above = [folder for folder in Path(path).parents if not folder.exists()] if is_local else []
    is_new = is_local and not os.path.exists(path)
    system.create_dir(path, recursive=True)
    unseen = f"{path}/.{name}.{uuid4().hex}"
    with system.open_output_stream(unseen) as stream:
        stream.write(content)
    if is_local:
        with open(unseen, "rb") as file:
            os.fsync(file.fileno())
    system.move(unseen, f"{path}/{name}")
    if is_local:
        sync_folder(path)
        for folder in ([Path(path)] if is_new else []) + above:
            sync_folder(str(folder.parent))


def _delete_below(system: pyarrow.fs.FileSystem, path: str, number: int) -> None:
    """Delete the files with lower numbers, also those that a killed process did not complete."""
    for info in system.get_file_info(pyarrow.fs.FileSelector(path)):
        match = _NAME.match(info.base_name)
        if match and int(match["number"]) < number:
            with suppress(FileNotFoundError):
                system.delete_file(info.path)
