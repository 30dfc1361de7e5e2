"""Reads delayed messages of all delay groups. Delay nodes mask contents by the rules of one subject.

A list of all subjects, and a search for an ID alone, are first read without contents, and then again for each subject that the
caller can read.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from console.cluster.asking import Nodes, Page, ask, delay_groups, reason_of
from console.cluster.masking import ALL
from console.cluster.merging import Row
from console.cluster.messages import filter_refused
from console.cursors import decode_cursor, encode_cursor
from metaserver.errors import NotFound
from qmq.client.message import due_ms_of
from qmq.errors import QmqError
from qmq.node_admin import NodeAdmin
from qmq.protocol.delayed import FILTER_INVALID
from qmq.protocol.masking import Masks

MasksOf = Callable[[Collection[str]], Mapping[str, Masks]]
"""What is masked of the messages of each of these subjects that exists; ALL: they are not readable."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which messages; due times `begin` <= due < `end`."""

    subject: str
    """Empty: of all subjects, in lists."""
    begin: datetime | None = None
    end: datetime | None = None
    states: tuple[str, ...] = ()
    match: tuple[tuple[str, str], ...] = ()
    filter_text: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A message as the caller knows it; subject and due time may be unknown."""

    message_id: str
    subject: str = ""
    due: datetime | None = None


def listed(query: Query, *, limit: int, cursor: str | None = None, masks_of: MasksOf) -> Page[Row]:
    """A page of delayed messages in the order of their due times, as nodes return them, with `delay_group` and `is_hidden`.

    Raises:
        ChangeRefused: the cursor does not belong to this query, or the nodes reject the filter.
        CallTimeout: it took longer than REQUEST_SECONDS.
    """
    question = ("delayed", query.subject, query.begin, query.end, query.states, sorted(query.match), query.filter_text)
    places: dict[str, str] = {} if cursor is None else decode_cursor(cursor, question)
    nodes = delay_groups()
    masks = _masks_of_one(query.subject, masks_of)

    def reader(group: str, admin: NodeAdmin) -> "_Reader":
        return _Reader(lambda place: _ask_page(admin, query, masks, limit + 1, place), places.get(group, ""))

    readers = {group: reader(group, admin) for group, admin in nodes.admins.items()}
    problems = dict(nodes.unreachable)
    rows, has_more = ask(lambda: _merged(readers, limit, problems))
    for row in rows:
        row["is_hidden"] = masks is ALL
    if not query.subject:
        problems |= _add_contents(nodes, query, rows, masks_of)
    places |= {group: reader.place for group, reader in readers.items()}
    return Page(rows, encode_cursor(question, places) if has_more else None, problems)


def _masks_of_one(subject: str, masks_of: MasksOf) -> Masks:
    """ALL if no subject is given."""
    return masks_of([subject]).get(subject, ALL) if subject else ALL


def _ask_page(admin: NodeAdmin, query: Query, masks: Masks, limit: int, cursor: str) -> Awaitable[Row]:
    begin, end = (None if time is None else due_ms_of(None, time) for time in (query.begin, query.end))
    return admin.delayed(
        subject=query.subject, from_ms=begin, to_ms=end, states=query.states, match=dict(query.match),
        filter_text=query.filter_text, limit=limit, cursor=cursor, masks=masks,
    )  # fmt: skip


class _Reader:
    """The messages of a delay group, page by page. `place`: the cursor behind all that were taken."""

    def __init__(self, ask_page: Callable[[str], Awaitable[Row]], place: str) -> None:
        self._ask_page = ask_page
        self._rows: deque[Row] = deque()
        self._next: str | None = place
        self.place = place

    async def head(self) -> Row | None:
        """The message that is next; None at the end."""
        while not self._rows and self._next is not None:
            self.place = self._next
            page = await self._ask_page(self.place)
            self._rows.extend(page["messages"])
            self._next = page["cursor"]
        return self._rows[0] if self._rows else None

    def take(self) -> Row:
        """Take it, with the cursor in front of it as `after`."""
        row = {**self._rows.popleft(), "after": self.place}
        self.place = row["cursor"]
        return row


async def _merged(readers: Mapping[str, _Reader], limit: int, problems: dict[str, str]) -> tuple[list[Row], bool]:
    """The first messages of all groups by due time, and whether there are more. `problems` gets why a group did not answer."""
    heap: list[tuple[int, str]] = []

    async def push(group: str) -> None:
        try:
            row = await readers[group].head()
        except (QmqError, OSError) as error:
            if getattr(error, "code", "") == FILTER_INVALID:
                raise filter_refused(str(error)) from error
            problems[group] = reason_of(error)
            return
        if row is not None:
            heapq.heappush(heap, (row["due_ms"], group))

    await asyncio.gather(*map(push, readers))
    rows: list[Row] = []
    while heap and len(rows) < limit:
        _, group = heapq.heappop(heap)
        rows.append({**readers[group].take(), "delay_group": group})
        await push(group)
    return rows, bool(heap)


def _add_contents(nodes: Nodes, query: Query, rows: Sequence[Row], masks_of: MasksOf) -> Mapping[str, str]:
    """Read the messages of a page again, for those subjects that the caller can read; return why a group did not answer."""
    masks = masks_of({row["subject"] for row in rows})
    parts: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if masks.get(row["subject"], ALL) is not ALL:
            parts.setdefault(row["delay_group"], {}).setdefault(row["subject"], []).append(row)

    async def read(group: str, admin: NodeAdmin) -> None:
        for subject, part in parts[group].items():
            await _add(admin, replace(query, subject=subject), part, masks[subject])

    return nodes.only(parts).ask(read).unreachable


async def _add(admin: NodeAdmin, query: Query, rows: Sequence[Row], masks: Masks) -> None:
    """Add the contents of messages of one subject. Those that were changed meanwhile may stay hidden."""
    missing = {row["cursor"]: row for row in rows}
    cursor, last_ms = rows[0]["after"], rows[-1]["due_ms"]
    while missing and cursor is not None:
        page = await _ask_page(admin, query, masks, len(rows), cursor)
        for shown in page["messages"]:
            if (row := missing.pop(shown["cursor"], None)) is not None:
                row.update(shown, is_hidden=False)
            elif shown["due_ms"] > last_ms:
                return
        cursor = page["cursor"]


def _no_masks(_: Collection[str]) -> Mapping[str, Masks]:
    """Of a caller that needs no contents."""
    return {}


def found(target: Target, *, masks_of: MasksOf = _no_masks, seconds: float | None = None) -> Page[Row]:
    """All copies of a message id, as nodes return them, with `delay_group` and `is_hidden`; by default without contents.

    Args:
        seconds: for each delay group; all are asked at once.

    Raises:
        NotFound: no delay group knows it, and all were reached.
        QmqError: none could be reached.
    """
    nodes = delay_groups()
    result = _find(nodes, target, _masks_of_one(target.subject, masks_of), seconds)
    rows, problems = list(result.rows), dict(result.unreachable)
    if not target.subject:
        for subject, masks in masks_of({row["subject"] for row in rows}).items():
            if masks is not ALL:
                there = nodes.only(row["delay_group"] for row in rows if row["subject"] == subject)
                again = _find(there, replace(target, subject=subject), masks, seconds)
                rows = [row for row in rows if row["subject"] != subject] + list(again.rows)
                problems |= again.unreachable
    if not rows and not problems:
        raise NotFound(
            f"Delayed message {target.message_id} not found. Delivered and cancelled messages are kept for a day.",
            code="delayed.unknown",
        )
    return Page(sorted(rows, key=lambda row: int(row["due_ms"])), None, problems)


def _find(nodes: Nodes, target: Target, masks: Masks, seconds: float | None) -> Page[Row]:
    due_ms = None if target.due is None else due_ms_of(None, target.due)

    def question(_: str, admin: NodeAdmin) -> Awaitable[Row]:
        return admin.delayed_message(target.message_id, subject=target.subject, due_ms=due_ms, masks=masks)

    answers = ask(lambda: nodes.answers(question, seconds=seconds))
    if answers.unreachable and not answers.values:
        group, why = next(iter(answers.unreachable.items()))
        code = answers.codes.get(group) or "delay.group_unreachable"
        raise QmqError(f"delay group {group}: {why}", code=code, retriable=True)
    rows = [
        {**row, "delay_group": group, "is_hidden": masks is ALL}
        for group, answer in answers.values.items()
        for row in answer["messages"]
    ]
    return Page(rows, None, answers.unreachable)
