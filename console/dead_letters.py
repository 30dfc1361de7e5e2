"""Dead letters: how many of which group, what each says of its end, and what is decided about them.

A letter lies in the append-only log of subject `%DEAD_RETRY%subject%group` until retention takes it. A decision (replayed,
deleted) is a row beside it: deleted letters are hidden, and none is replayed twice by mistake.

A replay is a copy with a message id of its own, so that no consumer's memory of the old id drops it. The id follows from the
letter and from how often it was replayed: when nobody knows whether a copy was stored, the next attempt has the same id, and
consumers that remember ids see one message. The letter's id goes along in property KEY_REPLAY_OF.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from hashlib import blake2b
from operator import or_
from typing import Any, Literal

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Count, Q
from django.utils import timezone

from console.asking import (
    REQUEST_SECONDS,
    Nodes,
    ask,
    ask_each,
    broker,
    brokers,
)
from console.cursors import decode_cursor, encode_cursor
from console.messages import (
    APP,
    KEY_USER,
    SEND_TIMEOUTS,
    SUBJECT_UNKNOWN,
    Row,
    check_not_archived,
    merged,
    read_one,
    real_subject,
)
from console.models import DeadLetterDecision
from metaserver.services import audit, subjects
from metaserver.services.changes import Actor, Conflict, NotFound
from qmq.client.message import Receipt
from qmq.client.nodes import NodeAdmin, NodeRefused
from qmq.client.producer import Producer
from qmq.errors import LocalProtocolError, QmqError, SendFailed
from qmq.protocol.messages import (
    KEY_ATTEMPT,
    KEY_CREATED,
    KEY_GROUP,
    KEY_MAX_RETRY,
    KEY_PULL_OFFSET,
    KEY_RETRY_CAUSE,
    Message,
)
from qmq.protocol.names import DEAD_PREFIX, dead_letter_subject, retry_subject, split_subject

KEY_REPLAY_OF = "qmq_console_replay_of"
"""The property of a replay that names the letter's message id."""
REPLAY_MAX = 10_000
"""Letters that one request may replay or delete; `next` goes on."""
SEQUENCES_MAX = 1_000
"""Letters that one request may name one by one."""
BATCH = 200
"""Letters read, claimed, sent and settled at a time."""
WORK_SECONDS = 20.0
"""After this long no new batch is begun; the answer says where to go on. A batch takes REQUEST_SECONDS twice at most."""
CLAIM_SECONDS = 4 * REQUEST_SECONDS
"""A letter claimed for a replay this long ago is free again: whoever claimed it has ended."""
NAMED_MAX = 100
"""Failed or missing letters that an answer names; the rest is counted."""
QUESTIONS_MAX = 16
"""Questions to one node at a time, for the ages of letters."""

State = DeadLetterDecision.State
To = Literal["group", "subject"]
_DECIDED = (State.REPLAYED, State.DELETED)


# --- counts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LetterCount:
    """The dead letters of one consumer group of a subject, on the broker groups that answered."""

    subject: str
    group: str
    stored: int
    """What the logs hold."""
    open: int
    """Of these, those nothing was decided about."""
    replayed: int
    deleted: int
    oldest_ms: int | None
    newest_ms: int | None
    broker_groups: Mapping[str, int]
    """Stored letters by broker group."""


@dataclass(frozen=True, slots=True)
class Counts:
    """A page of counts, by subject and group."""

    counts: Sequence[LetterCount]
    next: str | None
    unreachable: Mapping[str, str]


@dataclass(slots=True)
class _Stored:
    """One dead-letter subject: [begin, end) by broker group, and the times of its first and last letter."""

    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    times_ms: list[int] = field(default_factory=list)


def count_letters(
    *, subject: str | None = None, group: str | None = None, limit: int, cursor: str | None = None
) -> Counts:
    """Count dead letters by subject and consumer group, in the order of their names.

    Raises:
        ChangeRefused: the cursor is none of this question.
        CallTimeout: nobody answered in time.
    """
    nodes = brokers()
    query = ("dead letter counts", subject, group)
    after: str = "" if cursor is None else decode_cursor(cursor, query)

    async def work() -> tuple[dict[str, _Stored], str | None, dict[str, QmqError]]:
        lists, errors = await ask_each(
            {name: _names_on(admin, subject, group, after, limit + 1) for name, admin in nodes.admins.items()}
        )
        names = sorted({name for found in lists.values() for name in found})
        page = names[:limit]
        stored = {name: _Stored() for name in page}
        for broker_group, found in lists.items():
            for name in page:
                if name in found and found[name][1] > found[name][0]:
                    stored[name].ranges[broker_group] = found[name]
        _, more = await ask_each({name: _add_times(nodes.admins[name], name, stored) for name in lists})
        return stored, page[-1] if len(names) > limit else None, errors | more

    stored, last, errors = ask(work)
    split = {name: split_subject(name) for name in stored}
    decided = _count_decisions({(split[n].subject, split[n].group): s.ranges for n, s in stored.items()})
    counts = []
    for name, here in stored.items():
        key = split[name].subject, split[name].group
        total = sum(end - begin for begin, end in here.ranges.values())
        states = decided.get(key, {})
        replayed, deleted = states.get(State.REPLAYED, 0), states.get(State.DELETED, 0)
        counts.append(
            LetterCount(
                *key, total, total - sum(states.values()), replayed, deleted, min(here.times_ms, default=None),
                max(here.times_ms, default=None), {g: end - begin for g, (begin, end) in here.ranges.items()},
            )
        )  # fmt: skip
    unreachable = {**nodes.unreachable, **{name: str(error) for name, error in errors.items()}}
    return Counts(counts, encode_cursor(query, last) if last is not None else None, unreachable)


async def _names_on(
    admin: NodeAdmin, subject: str | None, group: str | None, after: str, limit: int
) -> dict[str, tuple[int, int]]:
    """The first dead-letter subjects of a node behind `after`, with [begin, end); a node lists its subjects by name."""
    if subject is not None and group is not None:
        wanted = dead_letter_subject(subject, group)
        page = await admin.stats(wanted)
        return {row["subject"]: (row["begin_sequence"], row["end_sequence"]) for row in page["subjects"]
                if row["subject"] > after}  # fmt: skip
    prefix = DEAD_PREFIX if subject is None else f"{DEAD_PREFIX}{subject}%"
    found: dict[str, tuple[int, int]] = {}
    at: str | None = max(after, prefix)
    while at is not None and len(found) < limit:
        page = await admin.stats(after=at, limit=limit)
        at = page["next_after"]
        for row in page["subjects"]:
            name = split_subject(row["subject"])
            if not row["subject"].startswith(prefix):
                at = None
                break
            if name.kind == "dead" and name.group and group in (None, name.group) and len(found) < limit:
                found[row["subject"]] = (row["begin_sequence"], row["end_sequence"])
    return found


async def _add_times(admin: NodeAdmin, broker_group: str, stored: Mapping[str, _Stored]) -> None:
    turns = asyncio.Semaphore(QUESTIONS_MAX)

    async def look(name: str, sequence: int) -> list[int]:
        async with turns:
            page = await admin.messages(name, sequence=sequence, limit=1)
        return [message["stored_at_ms"] for message in page["messages"] if "stored_at_ms" in message]

    work = []
    for name, here in stored.items():
        if broker_group in here.ranges:
            begin, end = here.ranges[broker_group]
            work += [(here, look(name, place)) for place in sorted({begin, end - 1})]
    for (here, _), times in zip(work, await asyncio.gather(*(question for _, question in work)), strict=True):
        here.times_ms += times


def _count_decisions(
    stored: Mapping[tuple[str, str], Mapping[str, tuple[int, int]]],
) -> dict[tuple[str, str], dict[str, int]]:
    """By (subject, group): decisions about letters that are still stored, by state."""
    places = [
        Q(subject=subject, group=group, broker_group=name, sequence__gte=begin, sequence__lt=end)
        for (subject, group), ranges in stored.items()
        for name, (begin, end) in ranges.items()
    ]
    counted: dict[tuple[str, str], dict[str, int]] = {}
    for first in range(0, len(places), 100):
        rows = DeadLetterDecision.objects.filter(reduce(or_, places[first : first + 100]))
        for row in rows.order_by().values("subject", "group", "state").annotate(letters=Count("pk")):
            states = counted.setdefault((row["subject"], row["group"]), {})
            states[row["state"]] = states.get(row["state"], 0) + row["letters"]
    return counted


# --- letters ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter as its node shows it (with `broker_group`), and what was decided about it."""

    message: Row
    decision: DeadLetterDecision | None

    @property
    def state(self) -> str:
        """A word of `DeadLetterDecision.State`, or "open"."""
        return str(self.decision.state) if self.decision is not None else "open"


@dataclass(frozen=True, slots=True)
class Letters:
    """Letters by the time they were given up."""

    letters: Sequence[Letter]
    next: str | None
    unreachable: Mapping[str, str]


def letters_of(subject: str, group: str, *, states: Sequence[str], limit: int, cursor: str | None = None) -> Letters:
    """A page of letters in these states ("open" and those of `DeadLetterDecision`). A page may hold fewer than `limit`, or
    none, and go on: what is left out was read all the same.

    Raises:
        as `messages.read_page`.
    """
    name = _dead_subject(subject, group)
    nodes = brokers()
    query = ("dead letters", name, sorted(states))
    places: dict[str, int] = {} if cursor is None else decode_cursor(cursor, query)
    pages, errors = ask(
        lambda: ask_each({g: _page_of(admin, name, places.get(g, 0), limit) for g, admin in nodes.admins.items()})
    )
    messages, reached = merged(pages, limit, in_order=True)
    has_more = any(reached[g] < page["end_sequence"] for g, page in pages.items())
    known = _decisions(subject, group, messages)
    letters = [Letter(message, known.get(_place(message))) for message in messages]
    places = {g: place for g, place in places.items() if g in errors} | reached
    unreachable = {**nodes.unreachable, **{g: str(error) for g, error in errors.items()}}
    return Letters(
        [letter for letter in letters if letter.state in states],
        encode_cursor(query, places) if has_more else None,
        unreachable,
    )


def letter_of(subject: str, group: str, broker_group: str, sequence: int) -> Letter:
    """One dead letter.

    Raises:
        NotFound: there is none.
        ConnectionLost: the broker group can't be asked.
    """
    message = read_one(_dead_subject(subject, group), broker_group, sequence)
    return Letter(message, _decisions(subject, group, [message]).get(_place(message)))


def _dead_subject(subject: str, group: str) -> str:
    """The name of a dead-letter subject. Raises NotFound when its real subject is unknown."""
    if real_subject(subject).kind != "real":
        raise NotFound(
            f"{subject!r} is a retry or dead-letter subject. Specify the subject itself and the consumer group.",
            code=SUBJECT_UNKNOWN,
        )
    return dead_letter_subject(subject, group)


async def _page_of(admin: NodeAdmin, name: str, sequence: int, limit: int) -> Row:
    try:
        return await admin.messages(name, sequence=sequence, limit=limit)
    except NodeRefused as error:
        if error.code != SUBJECT_UNKNOWN:
            raise
        return {"messages": [], "begin_sequence": 0, "end_sequence": 0, "next_sequence": None}


def _place(message: Row) -> tuple[str, int]:
    return message["broker_group"], message["sequence"]


def _decisions(subject: str, group: str, messages: Iterable[Row]) -> dict[tuple[str, int], DeadLetterDecision]:
    """Decisions about these letters, by place. A decision about another letter with the same number is none."""
    ids = {_place(message): message.get("message_id", "") for message in messages}
    by_group: dict[str, list[int]] = {}
    for broker_group, sequence in ids:
        by_group.setdefault(broker_group, []).append(sequence)
    if not by_group:
        return {}
    rows = DeadLetterDecision.objects.filter(
        reduce(or_, [Q(broker_group=g, sequence__in=numbers) for g, numbers in by_group.items()]),
        subject=subject,
        group=group,
    )
    return {(r.broker_group, r.sequence): r for r in rows if r.message_id == ids[(r.broker_group, r.sequence)]}


# --- decisions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters: all (with `cursor` from where an answer left off), or those named, by broker group."""

    sequences: Mapping[str, Sequence[int]] | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A letter that could not be decided about, and why."""

    broker_group: str
    sequence: int
    why: str


@dataclass(slots=True)
class Progress:
    """What a request came to."""

    looked_at: int = 0
    done: int = 0
    """Replayed or deleted; in a dry run, those that would be."""
    already: int = 0
    """Decided before, and left alone without `force`."""
    under_way: int = 0
    """Another request is at it."""
    unknown: int = 0
    """Sent, and nobody knows whether they were stored: the next request tries them again, under the same ids."""
    failed: int = 0
    failures: list[Failed] = field(default_factory=list)
    """The first of those that failed or are not there."""
    next: str | None = None
    """Where to go on; None: all that was selected was looked at."""
    unreachable: dict[str, str] = field(default_factory=dict)
    stopped: str = ""
    """Why no further batch was begun; "" when it was done or its limits were reached."""

    def fail(self, broker_group: str, sequence: int, why: str) -> None:
        """Count a failure, and name it as long as there is room."""
        self.failed += 1
        if len(self.failures) < NAMED_MAX:
            self.failures.append(Failed(broker_group, sequence, why))


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to be done with the letters of one group."""

    subject: str
    group: str
    action: Literal["replay", "delete"]
    to: To
    force: bool
    dry_run: bool
    actor: Actor
    reason: str

    @property
    def name(self) -> str:
        return dead_letter_subject(self.subject, self.group)


def replay(
    subject: str,
    group: str,
    selection: Selection,
    *,
    to: To = "group",
    force: bool = False,
    limit: int,
    actor: Actor,
    reason: str = "",
    dry_run: bool = False,
) -> Progress:
    """Send copies of letters to the consumer group's retry subject, where only this group gets them, or to the subject.

    A letter that was replayed or deleted before is left alone unless `force`. Each batch is claimed, with its audit entry,
    before it is sent: two requests never replay the same letter, and none is replayed without an entry.

    Raises:
        NotFound, Conflict: there is no such subject, or it is archived, or another request claims at this moment.
        NotAllowed: the subject belongs to another team. Batches before it was handed over stay done.
        ChangeRefused: the cursor is none of this selection.
        QmqError: nothing could be done because a part of the system can't be reached.
    """
    _dead_subject(subject, group)
    check_not_archived(subject)
    order = _Order(subject, group, "replay", to, force, dry_run, actor, reason)
    return _work(order, selection, limit)


def delete(
    subject: str,
    group: str,
    selection: Selection,
    *,
    limit: int,
    actor: Actor,
    reason: str = "",
    dry_run: bool = False,
) -> Progress:
    """Hide letters from lists and from replays. The log is append-only: retention removes their bytes, nothing else does.

    Raises:
        as `replay`.
    """
    _dead_subject(subject, group)
    return _work(_Order(subject, group, "delete", "group", False, dry_run, actor, reason), selection, limit)


def _work(order: _Order, selection: Selection, limit: int) -> Progress:
    limit = max(1, min(limit, REPLAY_MAX))
    progress = Progress()
    deadline = time.monotonic() + WORK_SECONDS
    for name in selection.sequences or ():
        broker(name)
    nodes = brokers(selection.sequences)
    progress.unreachable.update(nodes.unreachable)
    if selection.sequences is None:
        batches = _all_letters(order, nodes, selection.cursor, limit, progress, deadline)
    else:
        batches = _named_letters(order, nodes, selection.sequences, progress, deadline)
    for begin, letters in batches:
        progress.looked_at += len(letters)
        readable = []
        for letter in letters:
            if letter.get("withheld"):
                progress.fail(*_place(letter), letter.get("reason", "its stored data is corrupted"))
            else:
                readable.append(letter)
        if readable:
            _batch(order, begin, readable, progress)
    return progress


def _all_letters(
    order: _Order, nodes: Nodes, cursor: str | None, limit: int, progress: Progress, deadline: float
) -> Iterator[tuple[int, list[Row]]]:
    """Batches of all letters with the begin of their log, up to where the logs ended when it began: what consumers give up
    meanwhile (perhaps the very replays) is not chased."""
    query = (f"{order.action} dead letters", order.name)
    windows: dict[str, tuple[int, int]] = {} if cursor is None else decode_cursor(cursor, query)
    fresh = {group: admin for group, admin in nodes.admins.items() if group not in windows}
    ends, errors = ask(lambda: ask_each({g: _page_of(admin, order.name, 0, 1) for g, admin in fresh.items()}))
    windows |= {group: (page["begin_sequence"], page["end_sequence"]) for group, page in ends.items()}
    progress.unreachable.update({group: str(error) for group, error in errors.items()})
    left = limit
    for group in sorted(set(windows) & set(nodes.admins)):
        admin = nodes.admins[group]
        while (
            windows[group][0] < windows[group][1] and left > 0 and time.monotonic() < deadline and not progress.stopped
        ):
            begin, end = windows[group]
            try:
                page = _read(admin, order.name, begin, min(BATCH, left, end - begin))
            except QmqError as error:
                progress.unreachable[group] = str(error)
                break
            letters = [{**m, "broker_group": group} for m in page["messages"] if m["sequence"] < end]
            reached = letters[-1]["sequence"] + 1 if letters else end
            yield page["begin_sequence"], letters
            if progress.stopped:
                break  # the next request begins with this batch again
            left -= len(letters)
            windows[group] = (reached, end)
    has_more = any(begin < end and g not in progress.unreachable for g, (begin, end) in windows.items())
    progress.next = encode_cursor(query, windows) if has_more else None


def _named_letters(
    order: _Order, nodes: Nodes, sequences: Mapping[str, Sequence[int]], progress: Progress, deadline: float
) -> Iterator[tuple[int, list[Row]]]:
    """Batches of the letters named; what is not there fails."""
    for group in sorted(nodes.admins):
        left = sorted(set(sequences[group]))
        while left:
            if progress.stopped or time.monotonic() >= deadline:
                progress.unreachable[group] = (
                    f"{progress.stopped or 'no time was left'}: {len(left)} dead letters were not processed"
                )
                break
            span = [number for number in left if number < left[0] + BATCH]
            try:
                page = _read(nodes.admins[group], order.name, span[0], span[-1] - span[0] + 1)
            except QmqError as error:
                progress.unreachable[group] = str(error)
                break
            found = {m["sequence"]: {**m, "broker_group": group} for m in page["messages"]}
            # A page of large messages may end early; it holds one at least, else nothing is there.
            reached = max(found, default=span[-1]) + 1
            for number in span:
                if number < reached and number not in found:
                    progress.fail(group, number, "Dead letter not found. Retention may have deleted it.")
            letters = [found[number] for number in span if number in found]
            yield page["begin_sequence"], letters
            left = [number for number in left if number >= reached]


def _read(admin: NodeAdmin, name: str, sequence: int, limit: int) -> Row:
    return ask(lambda: _page_of(admin, name, sequence, limit))


def _batch(order: _Order, begin: int, letters: Sequence[Row], progress: Progress) -> None:
    """Decide about letters of one broker group."""
    if order.dry_run:
        progress.done += len(_choose(order, letters, _decisions(order.subject, order.group, letters), progress))
        return
    try:
        with transaction.atomic():
            claimed = _claim(order, begin, letters, progress)
    except IntegrityError as error:
        raise Conflict(
            "Another request is processing the same dead letters. Try again.", code="dead_letter.busy"
        ) from error
    if order.action == "delete":
        progress.done += len(claimed)
    elif claimed:
        _send(order, claimed, progress)


def _choose(
    order: _Order,
    letters: Sequence[Row],
    known: Mapping[tuple[str, int], DeadLetterDecision],
    progress: Progress,
) -> list[Row]:
    """Those that are to be decided about now; the others are counted."""
    chosen = []
    fresh_since = timezone.now() - timedelta(seconds=CLAIM_SECONDS)
    left_alone: tuple[State, ...] = (State.DELETED,) if order.action == "delete" else () if order.force else _DECIDED
    for letter in letters:
        decision = known.get(_place(letter))
        if decision is not None and decision.state == State.REPLAYING and decision.at > fresh_since:
            progress.under_way += 1
        elif decision is not None and decision.state in left_alone:
            progress.already += 1
        else:
            chosen.append(letter)
    return chosen


@dataclass(slots=True)
class _Claimed:
    """A letter, its decision, and the decision it had before; None: it had none."""

    letter: Row
    decision: DeadLetterDecision
    before: dict[str, Any] | None


_FIELDS = ("state", "by", "at", "replayed_to", "replay_id")


def _claim(order: _Order, begin: int, letters: Sequence[Row], progress: Progress) -> list[_Claimed]:
    """Write the decisions and their audit entry, if the actor may: final ones for a delete, claims for a replay."""
    subjects.authorize(order.subject, order.actor)
    broker_group = letters[0]["broker_group"]
    ids = {letter["sequence"]: letter["message_id"] for letter in letters}
    mine = DeadLetterDecision.objects.filter(subject=order.subject, group=order.group, broker_group=broker_group)
    # Letters below are gone from the log, and their decisions with them.
    mine.filter(sequence__lt=begin).delete()
    known = {}
    for row in mine.select_for_update().filter(sequence__in=ids):
        if row.message_id == ids[row.sequence]:
            known[(broker_group, row.sequence)] = row
        else:
            row.delete()
    chosen = _choose(order, letters, known, progress)
    if not chosen:
        return []
    now = timezone.now()
    claimed = []
    for letter in chosen:
        found = known.get(_place(letter))
        before = None if found is None else {name: getattr(found, name) for name in _FIELDS}
        row = found or DeadLetterDecision(
            subject=order.subject, group=order.group, broker_group=broker_group, sequence=letter["sequence"],
            message_id=letter["message_id"],
        )  # fmt: skip
        row.state, row.by, row.at = State.DELETED, order.actor.name[:200], now
        if order.action == "replay":
            row.state, row.replayed_to, row.replay_id = State.REPLAYING, order.to, replay_id(row)
        claimed.append(_Claimed(letter, row, before))
    _save([item.decision for item in claimed if item.before is not None])
    DeadLetterDecision.objects.bulk_create([item.decision for item in claimed if item.before is None])
    said: dict[str, Any] = {"broker_group": broker_group, "letters": len(chosen), "sequences": runs_text(ids)}
    if len(chosen) < len(ids):
        said["sequences"] = runs_text(letter["sequence"] for letter in chosen)
    if order.action == "replay":
        said |= {"to": order.to, "force": order.force}
    audit.record(
        actor=order.actor, action=f"dead_letter.{order.action}", target=f"{order.subject}/{order.group}",
        reason=order.reason, after=said,
    )  # fmt: skip
    return claimed


def _save(rows: Sequence[DeadLetterDecision], *more: str) -> None:
    DeadLetterDecision.objects.bulk_update(rows, [*_FIELDS, *more], batch_size=100)


def replay_id(decision: DeadLetterDecision) -> str:
    """The message id of a letter's next replay: the same until one is known to be stored."""
    words = (decision.subject, decision.group, decision.broker_group, str(decision.sequence), decision.message_id)
    return f"replay.{blake2b('/'.join(words).encode(), digest_size=16).hexdigest()}.{decision.replays + 1}"


def runs_text(numbers: Iterable[int]) -> str:
    """Numbers as text: "3-5, 9"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if first < last else str(first) for first, last in runs)


# --- sending ------------------------------------------------------------------------------------------------------------


def copy_of(letter: Row, decision: DeadLetterDecision, *, by: str, now_ms: int) -> Message:
    """The copy that is sent: without what retries left, with who replays it and which message it was at first.

    For the group's retry subject it names the group, as a retry does, and keeps the number of attempts it may have. For
    the subject it names neither: other groups have their own.
    """
    to_group = decision.replayed_to == "group"
    dropped = {KEY_ATTEMPT, KEY_PULL_OFFSET, KEY_GROUP, KEY_RETRY_CAUSE} | (set() if to_group else {KEY_MAX_RETRY})
    properties = {key: value for key, value in letter["properties"].items() if key not in dropped}
    properties.setdefault(KEY_REPLAY_OF, letter["message_id"])
    properties |= {KEY_CREATED: str(now_ms), KEY_USER: by}
    target = decision.subject
    if to_group:
        properties[KEY_GROUP] = decision.group
        target = retry_subject(decision.subject, decision.group)
    return Message(target, decision.replay_id, properties, tuple(letter["tags"]), 0, now_ms, now_ms)


def _is_damaged(letter: Row) -> bool:
    """Whether text of it was no UTF-8 when it was read: a copy would not say the same."""
    texts = (*letter["tags"], *letter["properties"], *letter["properties"].values())
    return any("\N{REPLACEMENT CHARACTER}" in text for text in texts)


def _send(order: _Order, claimed: Sequence[_Claimed], progress: Progress) -> None:
    """Send the copies and write down what came of each."""
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    by = order.actor.name

    async def send_all() -> list[Receipt | BaseException]:
        async with Producer(settings.META_URL, app=APP, timeouts=SEND_TIMEOUTS) as producer:
            return await asyncio.gather(
                *(_send_one(producer, item, by=by, now_ms=now_ms, force=order.force) for item in claimed),
                return_exceptions=True,
            )

    try:
        results = ask(send_all)
    except QmqError as error:
        results = [error] * len(claimed)
    _settle(claimed, results, progress)


async def _send_one(producer: Producer, item: _Claimed, *, by: str, now_ms: int, force: bool) -> Receipt:
    if not force and _is_damaged(item.letter):
        raise LocalProtocolError(
            "it contains characters that are not valid UTF-8, so a copy may differ; use force to replay it anyway"
        )
    return await producer.send_message(copy_of(item.letter, item.decision, by=by, now_ms=now_ms))


def is_refused(error: BaseException) -> bool:
    """Whether a message is surely not stored; else nobody knows."""
    return isinstance(error, LocalProtocolError) or (
        isinstance(error, SendFailed) and error.code == "client.message_refused"
    )


def _settle(claimed: Sequence[_Claimed], results: Sequence[Receipt | BaseException], progress: Progress) -> None:
    settled, undone = [], []
    for item, result in zip(claimed, results, strict=True):
        if isinstance(result, Receipt):
            progress.done += 1
            item.decision.state = State.REPLAYED
            item.decision.replays += 1
            settled.append(item.decision)
        elif is_refused(result):
            progress.fail(item.decision.broker_group, item.decision.sequence, str(result))
            undone.append(item)
        elif isinstance(result, QmqError):
            progress.unknown += 1
            progress.stopped = str(result)
            item.decision.state = State.UNKNOWN
            settled.append(item.decision)
        else:
            # A mistake of ours: the claims stay as they are and run out by themselves.
            raise result
    with transaction.atomic():
        for item in undone:
            if item.before is None:
                item.decision.delete()
            else:
                for name, value in item.before.items():
                    setattr(item.decision, name, value)
                settled.append(item.decision)
        _save(settled, "replays")
