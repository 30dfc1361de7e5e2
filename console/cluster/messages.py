"""Stored messages over all broker groups of a subject: pages, search, one message."""

import json
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from console.cluster.asking import Answers, Nodes, Page, ask, broker, brokers
from console.cluster.merging import Row, merged, next_places
from console.cursors import decode_cursor, encode_cursor
from metaserver import queries
from metaserver.errors import ChangeRefused, Conflict, NotFound
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol import names
from qmq.protocol.delayed import FILTER_INVALID
from qmq.protocol.masking import Masks
from qmq.protocol.names import SubjectName, split_subject
from qmq.protocol.values import INT_MAX, whole_number

SUBJECT_UNKNOWN = "subject.unknown"
SCAN_BUSY, SCAN_REPLACED = "scan.busy", "scan.replaced"
NEWEST, OLDEST = "newest", "oldest"
"""Orders of a search."""


# --- which subject ------------------------------------------------------------------------------------------------------


def real_subject(name: str) -> SubjectName:
    """A subject's name taken apart, once it is sure that there is such a subject: retry and dead-letter subjects are
    there with their real one.

    Raises:
        NotFound: there is none.
    """
    if queries.broker_groups_of(names.real_subject(name)) is None:
        raise NotFound(f"Subject {name!r} not found.", code=SUBJECT_UNKNOWN)
    return split_subject(name)


def nodes_of(name: str, broker_group: str | None = None) -> Nodes:
    """Broker groups to ask about a subject's messages: the groups of its route; for retry and dead-letter subjects all, as those
    may lie on groups that have left the route.

    Raises:
        NotFound: there is no such subject or broker group.
    """
    parts = real_subject(name)
    if broker_group is not None:
        return broker(broker_group)
    return brokers(queries.broker_groups_of(parts.subject) if parts.kind == "real" else None)


# --- pages --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Where reading begins, on every broker group: a time (milliseconds), a sequence, or with what an id is found.

    `newest`: from there back, beginning with the message before that time or with that sequence; by default with the newest one.
    """

    from_time_ms: int | None = None
    sequence: int | None = None
    message_id: str | None = None
    newest: bool = False


def read_page(
    subject: str, start: Start, *, limit: int, broker_group: str | None = None, cursor: str | None = None, masks: Masks
) -> Page[Row]:
    """A page of a subject's messages over its broker groups, by the time they were stored, each with its `broker_group`.

    Raises:
        NotFound: there is no such subject or broker group.
        ChangeRefused: the cursor does not belong to this query.
        CallTimeout: no node answered in time.
    """
    nodes = nodes_of(subject, broker_group)
    query = ("page", subject, start.from_time_ms, start.sequence, start.message_id, start.newest, broker_group)
    places: dict[str, int] = {} if cursor is None else decode_cursor(cursor, query)

    def question(group: str, admin: NodeAdmin) -> Awaitable[Row]:
        if start.newest:
            until = None if start.sequence is None else start.sequence + 1
            place = {"until_sequence": places.get(group, until), "to_time": start.from_time_ms}
            return admin.newest_messages(subject, limit=limit, masks=masks, **place)
        place = {"sequence": start.sequence}
        if group in places:
            place = {"sequence": places[group]}
        elif start.message_id is None and start.from_time_ms is not None:
            place = {"from_time": start.from_time_ms}
        return admin.messages(subject, message_id=start.message_id, limit=limit, masks=masks, **place)

    answers = nodes.ask(question)
    messages, places, has_more = next_places(
        answers, places, limit, in_order=start.message_id is None, newest=start.newest
    )
    return Page(messages, encode_cursor(query, places) if has_more else None, answers.unreachable)


async def or_empty(answer: Awaitable[Row]) -> Row:
    """A node that never saw the subject holds none of its messages; that is no failure."""
    try:
        return await answer
    except NodeRefused as error:
        if error.code != SUBJECT_UNKNOWN:
            raise
        return {"messages": [], "begin_sequence": 0, "end_sequence": 0, "next_sequence": None}


def read_one(subject: str, broker_group: str, sequence: int, *, masks: Masks) -> Row:
    """One stored message.

    Raises:
        NotFound: there is none: it is not stored yet, or retention removed it.
        ConnectionLost: the broker group can't be reached.
    """
    admin = nodes_of(subject, broker_group).one(broker_group)
    page = ask(lambda: or_empty(admin.messages(subject, sequence=sequence, limit=1, masks=masks)))
    for message in page["messages"]:
        if message["sequence"] == sequence:
            return {**message, "broker_group": broker_group}
    why = "retention deleted it" if sequence < page["begin_sequence"] else f"the subject ends at {page['end_sequence']}"
    raise NotFound(
        f"Message {sequence} of subject {subject} on {broker_group} not found: {why}.", code="message.unknown"
    )


# --- search -------------------------------------------------------------------------------------------------------------


def with_id(message_id: str) -> str:
    """A filter for messages with an ID."""
    return f"id == {json.dumps(message_id, ensure_ascii=False)}"


def has_property(key: str, value: str) -> str:
    """A filter for messages with a property."""
    return f"properties[{json.dumps(key, ensure_ascii=False)}] == {json.dumps(value, ensure_ascii=False)}"


def check_filter(answers: Answers[Row]) -> None:
    """Raises ChangeRefused if nodes reject the filter, or Conflict if a newer search of the caller replaced this one."""
    for name, code in answers.codes.items():
        if code == SCAN_REPLACED:
            raise Conflict(answers.unreachable[name], code=SCAN_REPLACED)
        if code == FILTER_INVALID:
            raise filter_refused(answers.unreachable[name])


def filter_refused(why: str) -> ChangeRefused:
    """The error of a filter that nodes reject."""
    return ChangeRefused(f"filter: {why}", code=FILTER_INVALID, fields={"filter": why})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a message has to match, and in which window of time (milliseconds) it was stored."""

    filter_text: str = ""
    """docs/reference/filters.md; "": every message."""
    from_time_ms: int | None = None
    to_time_ms: int | None = None
    order: str = NEWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Page[Row]):
    """What one step of a search found, and how far the search is. It is cancelled by not requesting the next step."""

    scanned: int
    total: int
    """Messages of the window in the groups that answered so far."""
    unreadable: int
    """Messages whose stored bytes fail their checks, so it is unknown whether they match."""
    costly: int
    """Messages for which the filter takes too long, so it is unknown whether they match."""
    progress: float
    """0..1 of what the groups that answered hold in the window."""
    expression: str | None
    """The filter in CEL; None: no group answered."""
    searched: list[str]
    """Parts of messages that the filter names."""


def search(
    subject: str,
    wanted: Wanted,
    *,
    limit: int,
    broker_group: str | None = None,
    cursor: str | None = None,
    masks: Masks,
    caller: str,
) -> Slice:
    """One bounded step of a search. Where the search ends is fixed by its first step, so that it has an end while messages keep
    coming.

    The messages of each step are in the order of the time stored. Nodes do one step at a time of a `caller`.

    Raises:
        ChangeRefused: the nodes reject the filter.
        Conflict: a newer search of the caller replaced this one.
        as `read_page`.
    """
    nodes = nodes_of(subject, broker_group)
    query = ("search", subject, wanted.filter_text, wanted.order, wanted.from_time_ms, wanted.to_time_ms, broker_group)
    # By broker group: the window of the search, and where it is.
    windows: dict[str, tuple[int, int, int]] = {} if cursor is None else decode_cursor(cursor, query)
    is_newest = wanted.order == NEWEST
    open_ = [group for group in nodes.admins if group not in windows or not _is_done(windows[group], is_newest)]
    share = max(1, limit // max(1, len(open_)))

    def question(group: str, admin: NodeAdmin) -> Awaitable[Row]:
        where: Row = {"from_time": wanted.from_time_ms, "to_time": wanted.to_time_ms}
        if group in windows:
            begin, reached, end = windows[group]
            where = {"sequence": begin, "until_sequence": reached} if is_newest else {"sequence": reached}
            where.setdefault("until_sequence", end)
        filters = [wanted.filter_text] if wanted.filter_text else []
        return admin.search(
            subject, filters=filters, order=wanted.order, limit=share, masks=masks, caller=caller, **where
        )

    answered = nodes.only(open_).ask(question)
    check_filter(answered)
    answers = answered.values
    found, reached = merged(answers, limit, in_order=False, newest=is_newest)
    for group, answer in answers.items():
        begin, end = answer["begin_sequence"], answer["end_sequence"]
        if group in windows:
            # Retention may have passed the place where a step begins: what it removed counts as checked.
            begin, end = (begin, windows[group][2]) if is_newest else (windows[group][0], end)
        windows[group] = (begin, reached[group], max(end, reached[group]))
    has_more = SCAN_BUSY in answered.codes.values() or not all(_is_done(windows[group], is_newest) for group in answers)
    total = sum(end - begin for begin, _, end in windows.values())
    done = sum(end - at if is_newest else at - begin for begin, at, end in windows.values())
    first = next(iter(answers.values()), {})
    return Slice(
        found,
        encode_cursor(query, windows) if has_more else None,
        answered.unreachable,
        scanned=done,
        total=total,
        unreadable=sum(answer.get("unreadable", 0) for answer in answers.values()),
        costly=sum(answer.get("costly", 0) for answer in answers.values()),
        progress=done / total if total else float(not has_more and not answered.unreachable),
        expression=first.get("expression"),
        searched=first.get("searched", []),
    )


def _is_done(window: tuple[int, int, int], is_newest: bool) -> bool:
    begin, reached, end = window
    return reached <= begin if is_newest else reached >= end


def whole_property(message: Row, key: str, default: int | None, maximum: int = INT_MAX) -> Any:
    """Return a property as a whole number up to `maximum`; the default if it is not one."""
    return whole_number(message.get("properties", {}).get(key), default, maximum)
