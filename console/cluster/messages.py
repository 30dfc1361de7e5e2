"""Stored messages over all broker groups of a subject: pages, search, one message."""

import heapq
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any

from console.cluster.asking import Answers, Nodes, Page, ask, broker, brokers
from console.cursors import decode_cursor, encode_cursor
from metaserver import queries
from metaserver.errors import NotFound
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol import names
from qmq.protocol.masking import Masks
from qmq.protocol.names import SubjectName, split_subject
from qmq.protocol.values import INT_MAX, LONG_MAX, whole_number

SUBJECT_UNKNOWN = "subject.unknown"
SCAN_BUSY = "scan.busy"

Row = dict[str, Any]


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
    """Where reading begins, on every broker group: a time (milliseconds), a sequence, or with what an id is found."""

    from_time_ms: int | None = None
    sequence: int | None = None
    message_id: str | None = None


def merged(pages: Mapping[str, Row], limit: int, *, in_order: bool) -> tuple[list[Row], dict[str, int]]:
    """The first `limit` messages of these pages by time stored, and each group's next sequence. Pure.

    `in_order`: stop where a group's page ends before the group does, as its next message may be older than the others'.
    Clocks step and stamps with them: in a group the order is always that of sequences.
    """
    taken: list[Row] = []
    used = dict.fromkeys(pages, 0)
    heap: list[tuple[int, str]] = []

    def push(group: str, at_least: int) -> bool:
        """False when the group's page is used up and the group is not."""
        messages = pages[group]["messages"]
        if used[group] < len(messages):
            heapq.heappush(heap, (max(at_least, messages[used[group]].get("stored_at_ms", 0)), group))
            return True
        return pages[group]["next_sequence"] is None

    is_whole = True
    for group in pages:
        is_whole = push(group, 0) and is_whole
    while heap and len(taken) < limit and (is_whole or not in_order):
        stored_at_ms, group = heapq.heappop(heap)
        taken.append({**pages[group]["messages"][used[group]], "broker_group": group})
        used[group] += 1
        is_whole = push(group, stored_at_ms) and is_whole
    places = {}
    for group, page in pages.items():
        if used[group] < len(page["messages"]):
            places[group] = page["messages"][used[group]]["sequence"]
        else:
            places[group] = page["end_sequence"] if page["next_sequence"] is None else page["next_sequence"]
    return taken, places


def next_places(
    answers: Answers[Row], places: Mapping[str, int], limit: int, *, in_order: bool
) -> tuple[list[Row], dict[str, int], bool]:
    """The messages of a page, where each broker group's next page begins, and whether there is one.

    A group that could not be reached keeps its place: it continues there once it answers again. One that never saw the subject
    holds none of its messages.
    """
    messages, reached = merged(answers.values, limit, in_order=in_order)
    kept = {group: place for group, place in places.items() if group in answers.unreachable}
    has_more = any(reached[group] < page["end_sequence"] for group, page in answers.values.items())
    return messages, kept | reached, has_more


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
    query = ("page", subject, start.from_time_ms, start.sequence, start.message_id, broker_group)
    places: dict[str, int] = {} if cursor is None else decode_cursor(cursor, query)

    def question(group: str, admin: NodeAdmin) -> Awaitable[Row]:
        place: Row = {"sequence": start.sequence}
        if group in places:
            place = {"sequence": places[group]}
        elif start.message_id is None and start.from_time_ms is not None:
            place = {"from_time": start.from_time_ms}
        return admin.messages(subject, message_id=start.message_id, limit=limit, masks=masks, **place)

    answers = nodes.ask(question)
    messages, places, has_more = next_places(answers, places, limit, in_order=start.message_id is None)
    return Page(messages, encode_cursor(query, places) if has_more else None, answers.unreachable)


async def or_empty(answer: Awaitable[Row]) -> Row:
    """A node that never saw the subject holds none of its messages; that is no failure."""
    try:
        return await answer
    except NodeRefused as error:
        if error.code != SUBJECT_UNKNOWN:
            raise
        return {"messages": [], "begin_sequence": 0, "end_sequence": 0, "next_sequence": None, "scanned": 0}


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


def newest(subject: str, *, masks: Masks) -> Page[Row]:
    """The message of a subject that was stored last, or none.

    Raises:
        NotFound: there is no such subject.
        CallTimeout: no node answered in time.
    """

    async def question(_: str, admin: NodeAdmin) -> list[Row]:
        end = (await or_empty(admin.messages(subject, sequence=LONG_MAX, limit=1, masks=masks)))["end_sequence"]
        page = await or_empty(admin.messages(subject, sequence=max(0, end - 1), limit=1, masks=masks))
        return list(page["messages"])

    answers = nodes_of(subject).ask(question)
    found = [{**row, "broker_group": group} for group, rows in answers.values.items() for row in rows]
    found.sort(key=lambda row: row.get("stored_at_ms", 0))
    return Page(found[-1:], None, answers.unreachable)


# --- search -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a message has to have, all of it, and in which window of time (milliseconds) it was stored."""

    properties: tuple[tuple[str, str], ...] = ()
    tag: str | None = None
    from_time_ms: int | None = None
    to_time_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Page[Row]):
    """What one step of a search found, and how far the search is. It is cancelled by not requesting the next step."""

    scanned: int
    unreadable: int
    """Messages whose stored bytes fail their checks, so it is unknown whether they match."""
    progress: float
    """0..1 of what the groups that answered hold in the window."""


def search(
    subject: str,
    wanted: Wanted,
    *,
    limit: int,
    scan_limit: int,
    broker_group: str | None = None,
    cursor: str | None = None,
    masks: Masks,
) -> Slice:
    """One bounded step of a search: each broker group checks at most `scan_limit` messages.

    Where the search ends is fixed by its first step, so that it has an end while messages keep coming.

    Raises:
        as `read_page`.
    """
    nodes = nodes_of(subject, broker_group)
    times = wanted.from_time_ms, wanted.to_time_ms
    query = ("search", subject, sorted(wanted.properties), wanted.tag, *times, broker_group)
    # By broker group: where the search began, where it is, and where it ends.
    windows: dict[str, tuple[int, int, int]] = {} if cursor is None else decode_cursor(cursor, query)
    open_ = [group for group in nodes.admins if group not in windows or windows[group][1] < windows[group][2]]
    share = max(1, limit // max(1, len(open_)))

    def question(group: str, admin: NodeAdmin) -> Awaitable[Row]:
        where: Row = {"from_time": wanted.from_time_ms, "to_time": wanted.to_time_ms}
        if group in windows:
            where = {"sequence": windows[group][1], "until_sequence": windows[group][2]}
        return admin.search(
            subject, properties=dict(wanted.properties), tag=wanted.tag, limit=share, scan_limit=scan_limit, masks=masks,
            **where,
        )  # fmt: skip

    answered = nodes.only(open_).ask(question)
    answers = answered.values
    found: list[Row] = []
    for group, answer in answers.items():
        begin, end = answer["begin_sequence"], answer["end_sequence"]
        reached = end if answer["next_sequence"] is None else answer["next_sequence"]
        # Retention may have passed the place where a step begins: what it removed counts as checked.
        windows[group] = (windows[group][0] if group in windows else begin, reached, max(end, reached))
        found += [{**message, "broker_group": group} for message in answer["messages"]]
    found.sort(key=lambda message: (message.get("stored_at_ms", 0), message["broker_group"], message["sequence"]))
    is_busy = SCAN_BUSY in answered.codes.values()
    has_more = is_busy or any(windows[group][1] < windows[group][2] for group in answers)
    total = sum(end - begin for begin, _, end in windows.values())
    done = sum(reached - begin for begin, reached, _ in windows.values())
    return Slice(
        found,
        encode_cursor(query, windows) if has_more else None,
        answered.unreachable,
        scanned=sum(answer["scanned"] for answer in answers.values()),
        unreadable=sum(answer.get("unreadable", 0) for answer in answers.values()),
        progress=done / total if total else (0.0 if has_more else 1.0),
    )


def whole_property(message: Row, key: str, default: int | None, maximum: int = INT_MAX) -> Any:
    """Return a property as a whole number up to `maximum`; the default if it is not one."""
    return whole_number(message.get("properties", {}).get(key), default, maximum)
