"""Stored messages over all broker groups of a subject: pages, search, one message, its trace, and test messages."""

import asyncio
import heapq
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from console.asking import (
    Nodes,
    ask,
    ask_each,
    broker,
    brokers,
)
from console.cursors import decode_cursor, encode_cursor
from metaserver import queries
from metaserver.services import audit, subjects
from metaserver.services.changes import Actor, ChangeRefused, Conflict, NotFound
from qmq.client.config import Timeouts
from qmq.client.delayed import DelayedReceipt, due_ms_of, moment
from qmq.client.message import Receipt, build_message, delayed_message
from qmq.client.message_ids import new_message_id
from qmq.client.nodes import NodeAdmin, NodeRefused
from qmq.client.producer import Producer
from qmq.errors import CallTimeout, QmqError
from qmq.protocol import names
from qmq.protocol.messages import KEY_ATTEMPT, encode_entry
from qmq.protocol.names import SubjectName, dead_letter_subject, retry_subject, split_subject

APP = "qmq-console"
KEY_USER = "qmq_console_user"
"""The property that says who produced a message from the console."""
SEND_TIMEOUTS = Timeouts(connect=3.0, send=5.0, delivery=10.0, route=5.0)
"""Shorter than a client's own: somebody waits for the answer."""
LINKS_SCAN = 5_000
"""Messages of one retry or dead-letter subject on one broker group that are looked through for later attempts."""
LINKS_MAX = 50
LINKS_SECONDS = 8.0
"""For all later attempts on one other broker group; the question to the message's own group takes NODE_SECONDS at most."""
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
    """Whom to ask about a subject's messages: the groups of its route; for retry and dead-letter subjects all, as those
    may lie on groups that have left the route.

    Raises:
        NotFound: there is no such subject or broker group.
    """
    parts = real_subject(name)
    if broker_group is not None:
        return broker(broker_group)
    return brokers(queries.broker_groups_of(parts.subject) if parts.kind == "real" else None)


def note_reading(actor: Actor, target: str, what: Mapping[str, Any]) -> None:
    """Write the audit entry of a request, or of a live tail, that was shown what messages say."""
    with transaction.atomic():
        audit.record(actor=actor, action="message.read", target=target, after=dict(what))


# --- pages --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Page:
    """Messages of several broker groups by the time they were stored, each with its `broker_group`."""

    messages: Sequence[Row]
    next: str | None
    """The cursor that goes on; None when every group that answered was read to its end."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Broker groups that could not be asked, and why: their messages are missing."""


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


def read_page(
    subject: str, start: Start, *, limit: int, broker_group: str | None = None, cursor: str | None = None
) -> Page:
    """A page of a subject's messages over its broker groups.

    Raises:
        NotFound: there is no such subject or broker group.
        ChangeRefused: the cursor is none of this question.
        CallTimeout: nobody answered in time.
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
        return _or_empty(admin.messages(subject, message_id=start.message_id, limit=limit, **place))

    answers, errors = ask(lambda: ask_each({group: question(group, admin) for group, admin in nodes.admins.items()}))
    messages, reached = merged(answers, limit, in_order=start.message_id is None)
    # A group that could not be asked keeps its place: it goes on there once it answers again.
    places = {group: place for group, place in places.items() if group in errors} | reached
    has_more = any(reached[group] < page["end_sequence"] for group, page in answers.items())
    unreachable = {**nodes.unreachable, **{group: str(error) for group, error in errors.items()}}
    return Page(messages, encode_cursor(query, places) if has_more else None, unreachable)


async def _or_empty(answer: Awaitable[Row]) -> Row:
    """A node that never saw the subject holds none of its messages; that is no failure."""
    try:
        return await answer
    except NodeRefused as error:
        if error.code != SUBJECT_UNKNOWN:
            raise
        return {"messages": [], "begin_sequence": 0, "end_sequence": 0, "next_sequence": None, "scanned": 0}


def read_one(subject: str, broker_group: str, sequence: int) -> Row:
    """One stored message.

    Raises:
        NotFound: there is none: it is not stored yet, or retention removed it.
        ConnectionLost: the broker group can't be asked.
    """
    admin = nodes_of(subject, broker_group).one(broker_group)
    page = ask(lambda: _or_empty(admin.messages(subject, sequence=sequence, limit=1)))
    for message in page["messages"]:
        if message["sequence"] == sequence:
            return {**message, "broker_group": broker_group}
    why = "retention deleted it" if sequence < page["begin_sequence"] else f"the subject ends at {page['end_sequence']}"
    raise NotFound(
        f"Message {sequence} of subject {subject} on {broker_group} not found: {why}.", code="message.unknown"
    )


# --- search -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a message has to have, all of it, and in which window of time (milliseconds) it was stored."""

    properties: tuple[tuple[str, str], ...] = ()
    tag: str | None = None
    from_time_ms: int | None = None
    to_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """What one step of a search found, and how far the search is."""

    messages: Sequence[Row]
    scanned: int
    unreadable: int
    """Messages whose stored bytes fail their checks: whether they match can't be told."""
    progress: float
    """0..1 of what the groups that answered hold in the window."""
    next: str | None
    """The cursor of the next step; None at the end. Whoever does not go on has cancelled the search."""
    unreachable: Mapping[str, str] = field(default_factory=dict)


def search(
    subject: str,
    wanted: Wanted,
    *,
    limit: int,
    scan_limit: int,
    broker_group: str | None = None,
    cursor: str | None = None,
) -> Slice:
    """One bounded step of a search: each broker group looks at `scan_limit` messages at most.

    Where the search ends is fixed by its first step, so that it has an end while messages keep coming.

    Raises:
        as `read_page`.
    """
    nodes = nodes_of(subject, broker_group)
    query = (
        "search",
        subject,
        sorted(wanted.properties),
        wanted.tag,
        wanted.from_time_ms,
        wanted.to_time_ms,
        broker_group,
    )
    # By broker group: where the search began, where it is, and where it ends.
    windows: dict[str, tuple[int, int, int]] = {} if cursor is None else decode_cursor(cursor, query)
    open_ = [group for group in nodes.admins if group not in windows or windows[group][1] < windows[group][2]]
    share = max(1, limit // max(1, len(open_)))

    def question(group: str) -> Awaitable[Row]:
        where: Row = {"from_time": wanted.from_time_ms, "to_time": wanted.to_time_ms}
        if group in windows:
            where = {"sequence": windows[group][1], "until_sequence": windows[group][2]}
        return _or_empty(
            nodes.admins[group].search(
                subject, properties=dict(wanted.properties), tag=wanted.tag, limit=share, scan_limit=scan_limit, **where
            )
        )

    answers, errors = ask(lambda: ask_each({group: question(group) for group in open_}))
    found: list[Row] = []
    for group, answer in answers.items():
        begin, end = answer["begin_sequence"], answer["end_sequence"]
        reached = end if answer["next_sequence"] is None else answer["next_sequence"]
        # Retention may have passed the place where a step begins: what it took counts as looked at.
        windows[group] = (windows[group][0] if group in windows else begin, reached, max(end, reached))
        found += [{**message, "broker_group": group} for message in answer["messages"]]
    found.sort(key=lambda message: (message.get("stored_at_ms", 0), message["broker_group"], message["sequence"]))
    is_busy = any(error.code == SCAN_BUSY for error in errors.values())
    has_more = is_busy or any(windows[group][1] < windows[group][2] for group in answers)
    total = sum(end - begin for begin, _, end in windows.values())
    done = sum(reached - begin for begin, reached, _ in windows.values())
    return Slice(
        found,
        sum(answer["scanned"] for answer in answers.values()),
        sum(answer.get("unreadable", 0) for answer in answers.values()),
        done / total if total else (0.0 if has_more else 1.0),
        encode_cursor(query, windows) if has_more else None,
        {**nodes.unreachable, **{group: str(error) for group, error in errors.items()}},
    )


# --- trace --------------------------------------------------------------------------------------------------------------


def trace(subject: str, broker_group: str, sequence: int, *, group: str | None = None, after: str | None = None) -> Row:
    """What became of a message in each consumer group: as its own broker group tells it, and later attempts on all the
    others (a consumer sends a failed message back by way of any of them).

    Raises:
        NotFound: there is no such message.
        ConnectionLost: its broker group can't be asked.
    """
    home = nodes_of(subject, broker_group).one(broker_group)
    others = brokers()

    async def work() -> Row:
        try:
            answer = await home.trace(subject, sequence, group=group, after=after)
        except NodeRefused as error:
            if error.status != 404:
                raise
            raise NotFound(str(error), code=error.code) from error
        await _add_links(answer, broker_group, others)
        return answer

    return ask(work)


async def _add_links(answer: Row, home: str, others: Nodes) -> None:
    """Add later attempts that lie on other broker groups; what could not be looked through is said."""
    message = answer["message"]
    for standing in answer["groups"]:
        for link in (*standing["retries"], *standing["dead_letters"]):
            link["broker_group"] = home
    if message is None or "message_id" not in message or not answer["groups"]:
        return
    admins = {name: admin for name, admin in others.admins.items() if name != home}
    found, errors = await ask_each({name: _links_on(admin, name, answer, message) for name, admin in admins.items()})
    holes = {**{name: why for name, why in others.unreachable.items() if name != home},
             **{name: str(error) for name, error in errors.items()}}  # fmt: skip
    for number, standing in enumerate(answer["groups"]):
        for links in found.values():
            retries, dead, why = links[number]
            standing["retries"] += retries
            standing["dead_letters"] += dead
            _say_incomplete(standing, why)
        for name, why in holes.items():
            _say_incomplete(standing, f"Broker group {name} could not be reached: {why}")
        since = standing["pulled_at_ms"] or 0
        # As the node itself decides it: a settled message with a later attempt was retried, whichever group stores that.
        if standing["state"] in (None, "acked", "retried"):
            for word, links in (("dead", standing["dead_letters"]), ("retried", standing["retries"])):
                if any(link["stored_at_ms"] >= since for link in links):
                    standing.update(state=word, known=True, why=None)
                    break
    answer["scope"] = "all broker groups" if not holes else "the reachable broker groups"


def _say_incomplete(standing: Row, why: str) -> None:
    if why:
        standing["links_complete"] = False
        standing["links_why"] = "; ".join(filter(None, (standing["links_why"], why)))


async def _links_on(
    admin: NodeAdmin, broker_group: str, answer: Row, message: Row
) -> list[tuple[list[Row], list[Row], str]]:
    """Of each consumer group of a trace: retries and dead letters on this broker group, and why that may not be all.

    One question after the other: a node has few turns for searches.

    Raises:
        CallTimeout: it took longer than LINKS_SECONDS.
    """
    try:
        async with asyncio.timeout(LINKS_SECONDS):
            return await _look_for_links(admin, broker_group, answer, message)
    except TimeoutError as error:
        raise CallTimeout(f"the search timed out after {LINKS_SECONDS:g} s", code="node.timeout") from error


async def _look_for_links(
    admin: NodeAdmin, broker_group: str, answer: Row, message: Row
) -> list[tuple[list[Row], list[Row], str]]:
    real = split_subject(answer["subject"]).subject
    found = []
    for standing in answer["groups"]:
        links: list[list[Row]] = []
        why = ""
        for name in (retry_subject(real, standing["group"]), dead_letter_subject(real, standing["group"])):
            page = await _or_empty(
                admin.search(
                    name, message_id=message["message_id"], from_time=message["stored_at_ms"], limit=LINKS_MAX,
                    scan_limit=LINKS_SCAN,
                )
            )  # fmt: skip
            if page["next_sequence"] is not None:
                why = f"{name} on {broker_group} was searched only up to sequence {page['next_sequence']}"
            links.append([_link(name, broker_group, copy) for copy in page["messages"]])
        found.append((links[0], links[1], why))
    return found


def _link(subject: str, broker_group: str, copy: Row) -> Row:
    return {
        "subject": subject,
        "broker_group": broker_group,
        "sequence": copy["sequence"],
        "stored_at_ms": copy["stored_at_ms"],
        "attempt": whole_property(copy, KEY_ATTEMPT, 1),
    }


def whole_property(message: Row, key: str, default: int | None) -> Any:
    """A property that is a whole number; the default when it is none."""
    text = message.get("properties", {}).get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else default


# --- produce ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was stored; `broker_group` "" for a dry run."""

    message_id: str
    subject: str
    broker_group: str
    attempts: int
    due_at: datetime | None


def produce(
    subject: str,
    properties: Mapping[str, str],
    *,
    tags: Sequence[str] = (),
    delay: timedelta | None = None,
    due: datetime | None = None,
    actor: Actor,
    reason: str = "",
    dry_run: bool = False,
) -> Sent:
    """Send one message to a subject that is there, with the sender's name in property KEY_USER.

    The audit entry is written first: a message without one can't be. When sending fails, a second entry says so.

    Raises:
        NotFound, Conflict: there is no such subject, or it is archived.
        NotAllowed: it belongs to another team.
        ChangeRefused, LocalProtocolError: the message can't be carried.
        SendFailed: it was not stored, or nobody knows.
    """
    parts = real_subject(subject)
    if parts.kind != "real":
        raise ChangeRefused(
            f"Subject {subject} accepts messages from consumers and replays only.", code="subject.not_real",
            fields={"subject": "a retry or dead-letter subject"},
        )  # fmt: skip
    check_not_archived(subject)
    if KEY_USER in properties:
        text = f"property {KEY_USER} is set by the console"
        raise ChangeRefused(text, code="message.invalid", fields={"properties": text})
    message_id = new_message_id()
    body = {**properties, KEY_USER: actor.name}
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    message = build_message(subject, body, tuple(tags), message_id, APP, now_ms)
    due_ms = None if delay is None and due is None else due_ms_of(delay, due)
    encode_entry(message if due_ms is None else delayed_message(message, due_ms))
    due_at = None if due_ms is None else moment(due_ms)
    if dry_run:
        return Sent(message_id, subject, "", 0, due_at)
    said = {"message_id": message_id, "properties": sorted(properties), "tags": list(tags)}
    if due_at is not None:
        said["due_at"] = due_at.isoformat()
    begin(actor, "message.send", subject, reason, said)

    async def send() -> Receipt | DelayedReceipt:
        async with Producer(settings.META_URL, app=APP, timeouts=SEND_TIMEOUTS) as producer:
            if due_at is not None:
                return await producer.send(subject, body, due=due_at, tags=tags, message_id=message_id)
            return await producer.send(subject, body, tags=tags, message_id=message_id)

    try:
        receipt = ask(send)
    except QmqError as error:
        note(actor, "message.send_failed", subject, reason, {"message_id": message_id, "error": str(error)[:500]})
        raise
    return Sent(receipt.message_id, subject, receipt.broker_group, receipt.attempts, due_at)


def check_not_archived(subject: str) -> None:
    """Raises Conflict for an archived subject: nodes refuse its messages."""
    if queries.is_archived(subject):
        raise Conflict(
            f"Subject {subject} is archived and accepts no messages. Restore it first.", code="subject.archived"
        )


def begin(actor: Actor, action: str, subject: str, reason: str, after: Mapping[str, Any]) -> None:
    """Write the audit entry of a change on nodes before any node is asked, if the actor may change the subject.

    Raises:
        NotFound: there is no such subject.
        NotAllowed: it belongs to another team.
    """
    with transaction.atomic():
        subjects.authorize(subject, actor)
        audit.record(actor=actor, action=action, target=subject, reason=reason, after=dict(after))


def note(actor: Actor, action: str, target: str, reason: str, after: Mapping[str, Any]) -> None:
    """Write the audit entry of how a change on nodes ended, in a transaction of its own."""
    with transaction.atomic():
        audit.record(actor=actor, action=action, target=target, reason=reason, after=dict(after))
