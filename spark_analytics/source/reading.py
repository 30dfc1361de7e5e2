"""Reading a partition: raw pages from a node, decoded while the node makes the next. Runs in executors.

Every row of a range comes, or its absence is an error or a recorded hole.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qmq.errors import QmqError
from qmq.net.http_auth import RequestSigner
from qmq.net.node_secret import NodeSecret
from qmq.node_admin import NodeAdmin
from qmq.protocol.bulk_read import (
    INDEX_ENTRY_BYTES,
    PROGRESS_ENTRY_BYTES,
    SCHEDULE_ENTRY_BYTES,
    UNKNOWN_GROUP,
    UNKNOWN_HOUR,
    UNKNOWN_SUBJECT,
    NodeLine,
)
from qmq.protocol.names import split_subject
from qmq.protocol.values import moment
from spark_analytics.source.arrow import (
    HOUR_MS,
    Page,
    failures_page,
    index_page,
    log_end,
    messages_page,
    progress_page,
    schedule_page,
    times,
)
from spark_analytics.source.gaps import Hole, Reason, record, refuse
from spark_analytics.source.node_reader import NodeReader, find_nodes
from spark_analytics.source.options import TIME_COLUMNS
from spark_analytics.source.partitions import Bundle, Forgotten, Range
from spark_analytics.source.planning import NodeUnreadable, named
from spark_analytics.source.selection import HIGHEST, LOWEST, Names, Selection

OF_MESSAGES_ONLY = frozenset({"message_id", "created_at", "tags", "properties", "attempt", "cause"})
"""Columns that the index can't fill; without any of them no message is read."""
DISK_SECONDS = 5.0
"""How long a node may take to say how full its disk is."""
DISKS_AT_ONCE = 16

_GONE = frozenset({UNKNOWN_SUBJECT, UNKNOWN_GROUP, UNKNOWN_HOUR})


@dataclass(frozen=True, slots=True)
class Task:
    """What a reader does with each partition; plain values, as it travels to executors. `schema`: the columns to make."""

    table: str
    schema: pa.Schema
    selection: Selection
    token: str
    on_gap: Literal["error", "record"]
    holes: str

    @property
    def wanted(self) -> frozenset[str]:
        """The columns to decode: those requested, and what rows are compared by."""
        wanted = set(self.schema.names)
        if self.selection.times.is_bounded:
            wanted.add(TIME_COLUMNS[self.table])
        if self.table == "delayed" and not self.selection.subjects.is_any:
            wanted.add("subject")
        return frozenset(wanted)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A page of a range: what its `count` entries from number `first` on are."""

    first: int
    count: int
    page: Page


def read_bundle(task: Task, bundle: Bundle) -> Iterator[pa.RecordBatch]:
    """The rows of a partition.

    Raises:
        GapFound: with `on_gap` = `error`, rows are gone or damaged.
        NodeUnreadable: the node can't be read, or holds less than it said.
        OSError: a hole can't be recorded.
    """
    with NodeReader(bundle.address, token=task.token) as reader:
        names = pa.array([], pa.string())
        if task.table == "delayed" and "subject" in task.wanted:
            try:
                names = pa.array(reader.hours()[1], pa.string())
            except QmqError as error:
                raise named(bundle.ranges[0], error) from error
        for one in bundle.ranges:
            yield from _read_range(task, reader, one, names)


def _read_range(task: Task, reader: NodeReader, one: Range, names: pa.StringArray) -> Iterator[pa.RecordBatch]:
    constants = _constants(task.table, one)
    at, is_gone = one.begin, False
    pieces = _pieces(task, reader, one, names)
    while True:
        try:
            piece = next(pieces, None)
        except QmqError as error:
            if error.code not in _GONE:
                raise named(one, error) from error
            is_gone = True
            break
        if piece is None:
            break
        if piece.first > at:
            _miss(task, one, at, piece.first, "retention")
        for begin, end in piece.page.damaged_ranges(piece.first):
            _miss(task, one, begin, end, "damage")
        at = piece.first + piece.count
        page = _chosen(task, piece.page)
        if len(page):
            yield page.to_batch(task.schema, constants)
    if at < one.end:
        if not is_gone:
            raise NodeUnreadable(
                f"broker group {one.broker_group} ({one.address}) holds subject {one.subject!r} up to {at}, but had reported"
                f" {one.end} before",
                code="analytics.went_back",
            )
        _miss(task, one, at, one.end, "retention")


def _miss(task: Task, one: Range, begin: int, end: int, reason: Reason) -> None:
    """Record rows that are no longer available. Raises GapFound."""
    subject = one.subject if one.hour < 0 else f"{moment(one.hour * HOUR_MS):%Y%m%d%H}"
    base = one.base if one.group else one.sequence_base
    hole = Hole(task.table, one.broker_group, subject, one.group, base + begin, base + end, reason)
    if task.on_gap == "error":
        raise refuse(hole)
    record(task.holes, hole)


def _constants(table: str, one: Range) -> dict[str, str | bool]:
    """What all rows of a range have in common."""
    common: dict[str, str | bool] = {"broker_group": one.broker_group}
    if table in ("retries", "dead_letters"):
        name = split_subject(one.subject)
        return common | {"subject": name.subject, "group": name.group}
    if table == "delayed":
        return common
    return common | {"subject": one.subject, "group": one.group, "is_broadcast": one.is_broadcast}


def _pieces(task: Task, reader: NodeReader, one: Range, names: pa.StringArray) -> Iterator[_Piece]:
    table, wanted = task.table, task.wanted
    if table == "progress":
        consumers = dict(one.consumers)
        for found in reader.progress(one.subject, one.group, one.begin, one.end):
            count = len(found.data) // PROGRESS_ENTRY_BYTES
            page = progress_page(found.data, found.first, wanted, consumers)
            _shift(page, one.base, "position")
            _shift(page, one.sequence_base, "next_sequence")
            if one.is_broadcast:
                # Its pull sequences are the consume sequences.
                _shift(page, one.sequence_base, "begin", "end")
            yield _Piece(found.first, count, page)
    elif table == "delayed":
        for hours in reader.schedule(one.hour, one.begin, one.end):
            count = len(hours.entries) // SCHEDULE_ENTRY_BYTES
            page = schedule_page(hours.entries, hours.states, one.hour, hours.first, wanted, names)
            yield _Piece(hours.first, count, page)
    elif wanted & OF_MESSAGES_ONLY:
        is_dead = table == "dead_letters"
        for read in reader.messages(one.subject, one.begin, one.end):
            count = len(read.entries) // INDEX_ENTRY_BYTES
            if table == "messages":
                page = messages_page(read.entries, read.raws, read.first, wanted)
            else:
                page = failures_page(read.entries, read.raws, read.first, wanted, one.subject, is_dead)
            _shift(page, one.sequence_base, "sequence")
            yield _Piece(read.first, count, page)
    else:
        end = -1
        for found in reader.index(one.subject, one.begin, one.end):
            count = len(found.data) // INDEX_ENTRY_BYTES
            page = index_page(found.data, found.first, wanted, end)
            _shift(page, one.sequence_base, "sequence")
            yield _Piece(found.first, count, page)
            end = log_end(found.data, end)


def _shift(page: Page, base: int, *names: str) -> None:
    """Add a number to columns, where the page has them; -1 stands for no place, and stays."""
    for name in names:
        if base and name in page.columns:
            column = page.columns[name]
            page.columns[name] = pc.if_else(pc.less(column, 0), column, pc.add(column, base))


def _chosen(task: Task, page: Page) -> Page:
    """The rows of a page that are in the time requested, and of a subject requested where pages mix them."""
    selection = task.selection
    if selection.times.is_bounded and len(page):
        column = page.columns[TIME_COLUMNS[task.table]]
        at_us = pc.fill_null(column.cast(pa.int64()), LOWEST).to_numpy(zero_copy_only=False)
        first, last = max(selection.times.begin, LOWEST + 1), min(selection.times.end, HIGHEST)
        page = page.filtered((at_us >= first) & (at_us < last))
    if task.table == "delayed" and not selection.subjects.is_any and len(page):
        page = page.filtered(_matching(page.columns["subject"], selection.subjects))
    return page


def _matching(subjects: pa.StringArray, names: Names) -> NDArray[np.bool_]:
    encoded = subjects.dictionary_encode()
    # One more place, at the end, for those without a subject.
    is_wanted = np.array([name in names for name in encoded.dictionary.to_pylist()] + [False], dtype=np.bool_)
    found: NDArray[np.bool_] = is_wanted[pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)]
    return found


def forgotten_batch(schema: pa.Schema, rows: Sequence[Forgotten]) -> pa.RecordBatch:
    """Return the rows of a stream of `progress` for deleted groups, without consumer and position."""
    same = {"kind": "forget", "consumer_key": 0, "begin": 0, "end": 0, "next_sequence": -1, "is_broadcast": False}
    columns: dict[str, Any] = {name: [value] * len(rows) for name, value in same.items()}
    columns |= {name: [getattr(row, name) for row in rows] for name in ("broker_group", "subject", "group", "position")}
    columns["consumer_id"] = [None] * len(rows)
    columns["at"] = times(np.array([row.at_ms for row in rows], dtype=np.int64))
    return _batch(columns, schema)


def _batch(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


# --- table nodes ----------------------------------------------------------------------------------------------------


def nodes_batch(task: Task, metaserver: str) -> pa.RecordBatch:
    """Every node as it is now.

    Raises:
        QmqError: the metaserver can't be reached.
    """
    page = find_nodes(metaserver, token=task.token)
    nodes = [node for node in page.nodes if node.broker_group in task.selection.broker_groups]
    has_disk = {"disk_used_bytes", "disk_total_bytes"} & set(task.schema.names)
    disks = asyncio.run(_disks(nodes)) if has_disk else [(None, None)] * len(nodes)
    seen = np.array([node.seen_at_ms for node in nodes], dtype=np.int64)
    same = ("broker_group", "node_id", "kind", "role", "address", "admin_address", "state")
    columns: dict[str, Any] = {name: [getattr(node, name) for node in nodes] for name in same}
    columns |= {
        "log_end_bytes": [node.log_end for node in nodes],
        "disk_used_bytes": [used for used, _ in disks],
        "disk_total_bytes": [total for _, total in disks],
        "seen_at": times(seen, seen < 0),
        "measured_at": times(np.full(len(nodes), page.read_at_ms, dtype=np.int64)),
    }
    return _batch(columns, task.schema)


async def _disks(nodes: list[NodeLine]) -> list[tuple[int | None, int | None]]:
    """Used and total bytes of each node's disk; None when it does not answer, or not without the node secret."""
    at_once = asyncio.Semaphore(DISKS_AT_ONCE)
    secret = NodeSecret.from_environment(os.environ)
    signer = RequestSigner(secret) if secret is not None else None

    async def ask(node: NodeLine) -> tuple[int | None, int | None]:
        async with at_once:
            try:
                info = await NodeAdmin(node.admin_address, DISK_SECONDS, signer=signer).stats(limit=1)
                free, total = int(info["disk_free_bytes"]), int(info["disk_total_bytes"])
            except (QmqError, KeyError, TypeError, ValueError):
                return None, None
            return (total - free, total) if total > 0 else (None, None)

    return list(await asyncio.gather(*map(ask, nodes)))
