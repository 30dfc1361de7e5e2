"""The delivery state of one message in each consumer group of its subject, from the logs of this node.

Sources in order of reliability: the pull logs (messages in flight), the groups' positions, and the groups' histories (progress
logs), which are read from the newest entry to the oldest. A message is stored before it is pulled, so the history of a group
covers every stored message, up to HISTORY_ENTRIES_MAX entries. An unknown state is reported as unknown, with a reason.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from broker_node.admin.search import Criteria, scan
from broker_node.storage.actions import RecordKind
from broker_node.storage.oldest_sequence import begin_adjusted
from broker_node.storage.progress_log import (
    PROGRESS_ENTRY,
    PROGRESS_ENTRY_BYTES,
    consumer_key,
    is_whole,
)
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from qmq.errors import LogError
from qmq.protocol.masking import Masks
from qmq.protocol.messages import KEY_ATTEMPT, KEY_PULL_OFFSET
from qmq.protocol.names import dead_letter_subject, retry_subject, split_subject
from qmq.protocol.values import whole_number
from qmq.words import counted
from qmq_node.log.index import IndexView

TRACE_GROUPS_MAX = 50
"""Most groups of one answer; the rest comes with `after`."""
HISTORY_ENTRIES_MAX = 20_000
"""Most entries of a group's history read for one message."""
HISTORY_SLICE = 1_000
"""Entries of one read."""
LINK_SCAN_MAX = 5_000
"""Most messages of a group's retry subject, and of its dead-letter subject, scanned for later attempts."""
LINKS_MAX = 50
"""Most later attempts of one group shown."""


class State(StrEnum):
    """The delivery state of a message in a group."""

    WAITING = "waiting"
    """Not pulled yet."""
    IN_FLIGHT = "in_flight"
    """Pulled and not acked."""
    ACKED = "acked"
    RETRIED = "retried"
    """A later attempt is in the group's retry subject."""
    DEAD = "dead"
    """A copy is in the group's dead-letter subject."""
    SKIPPED = "skipped"
    """Not delivered to the group: its position was reset past the message, or its filter excluded it."""
    EXPIRED = "expired"
    """Deleted by retention before the group pulled it."""


@dataclass(slots=True)
class DeliveryState:
    """The state of a message in a group. `state` None: unknown, for the reason `why`."""

    state: State | None
    why: str = ""
    consumer_id: str | None = None
    key: int | None = None
    """`consumer_key` of the consumer that pulled it; histories contain no consumer IDs."""
    pull_sequence: int | None = None
    pulled_at_ms: int | None = None
    acked_at_ms: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields of an answer."""
        shown = asdict(self)
        key = shown.pop("key")
        shown["consumer_key"] = None if key is None else f"{key:016x}"
        return {**shown, "known": self.state is not None, "why": self.why or None}


class _HistoryEntry(NamedTuple):
    at_ms: int
    key: int
    begin: int
    end: int
    next_sequence: int
    kind: int
    check: int


_NEXT_SEQUENCE = _HistoryEntry._fields.index("next_sequence")


@dataclass(frozen=True, slots=True)
class _Search:
    """The result of a search in a history. `found` None: the entry is unknown, for the reason `why`."""

    why: str = ""
    found: _HistoryEntry | None = None
    previous_position: int | None = None
    """The position before that entry; None when the history starts with it."""
    later: Sequence[_HistoryEntry] = ()
    """Later acks, settlements and departures, newest first."""


async def _search(group: Group, is_match: Callable[[_HistoryEntry, int | None], bool]) -> _Search:
    """Searches a group's history from the newest entry to the oldest; `is_match` also gets the position before an entry."""
    history = group.history
    oldest = max(history.begin, history.end - HISTORY_ENTRIES_MAX)
    view = history.view(oldest - 1, history.end)

    def search() -> _Search:
        later: list[_HistoryEntry] = []
        for entry, previous_position in _backward(view, oldest):
            if entry is None:
                return _Search("an entry in the history of the consumer group is corrupted")
            if is_match(entry, previous_position):
                return _Search("", entry, previous_position, later)
            if entry.kind in (RecordKind.ACK, RecordKind.SETTLE, RecordKind.OFFLINE):
                later.append(entry)
        if oldest > view.begin:
            return _Search(f"more than {HISTORY_ENTRIES_MAX} actions of the consumer group ago")
        return _Search("the history of the consumer group does not go back that far")

    try:
        return await asyncio.to_thread(search)
    except LogError:
        return _Search("the history of the consumer group was deleted during the search")


def _backward(view: IndexView, oldest: int) -> Iterator[tuple[_HistoryEntry | None, int | None]]:
    """Yields entries from the newest down to `oldest`, each with the position before it; None for a corrupted one.

    For any thread; raises LogError.
    """
    at = view.end
    while at > oldest:
        begin = max(oldest, at - HISTORY_SLICE)
        has_earlier = begin > view.begin
        data = view.read(begin - has_earlier, at)
        rows = list(PROGRESS_ENTRY.iter_unpack(data))
        for i in range(len(rows) - 1, has_earlier - 1, -1):
            place = i * PROGRESS_ENTRY_BYTES
            is_intact = is_whole(data, place) and (not i or is_whole(data, place - PROGRESS_ENTRY_BYTES))
            yield _HistoryEntry._make(rows[i]) if is_intact else None, rows[i - 1][_NEXT_SEQUENCE] if i else None
        at = begin


async def _in_flight(group: Group, consumer_id: str, pull_sequence: int) -> DeliveryState:
    key = consumer_key(consumer_id)

    def is_pull(entry: _HistoryEntry, _: int | None) -> bool:
        return entry.kind == RecordKind.PULL and entry.key == key and entry.begin <= pull_sequence < entry.end

    search = await _search(group, is_pull)
    why = f"time of the pull unknown: {search.why}" if search.why else ""
    at_ms = search.found.at_ms if search.found is not None else None
    return DeliveryState(State.IN_FLIGHT, why, consumer_id, key, pull_sequence, at_ms)


async def delivery_state(store: MessageStore, subject: Subject, group: Group, sequence: int) -> DeliveryState:
    """Returns the state of a sequence in a group from pull logs, position and history; later attempts are not considered."""
    progress = group.progress
    for consumer in progress.consumers.values():
        for run in consumer.log.runs():
            if run.begin <= sequence < run.begin + run.count:
                return await _in_flight(group, consumer.consumer_id, run.pull_begin + sequence - run.begin)
    if progress.next_sequence <= sequence:
        return DeliveryState(State.WAITING if sequence >= subject.begin else State.EXPIRED)
    names = {consumer_key(name): name for name in progress.consumers}
    is_stored = sequence >= subject.begin
    search = await _search(
        group, lambda entry, before: entry.next_sequence > sequence and (before is None or before <= sequence)
    )
    found = search.found
    if found is None:
        return DeliveryState(None, search.why)
    if found.kind == RecordKind.START:
        if search.previous_position is None and (store.log.stored.damaged or not is_stored):
            return DeliveryState(
                None, "the history of the consumer group starts after this message; earlier history is lost"
            )
        return DeliveryState(
            State.SKIPPED, f"the position was reset past this message, to sequence {found.next_sequence}"
        )
    pull_sequence = found.end - (found.next_sequence - sequence)
    is_skipped = pull_sequence < found.begin
    if found.kind != RecordKind.PULL or (is_skipped and search.previous_position is None):
        return DeliveryState(None, "the history of the consumer group starts with the action that passed this message")
    if is_skipped:
        return DeliveryState(State.SKIPPED, "excluded by the consumer's filter, unreadable, or deleted by retention")
    result = DeliveryState(None, "", names.get(found.key), found.key, pull_sequence, found.at_ms)
    result.why = "pulled, but neither acknowledged nor held by a known consumer"
    for entry in (entry for entry in reversed(search.later) if entry.key == found.key):
        if entry.kind == RecordKind.OFFLINE:
            result.why = "the consumer left without acknowledging it"
        elif not entry.begin <= pull_sequence < entry.end:
            continue
        elif entry.kind == RecordKind.SETTLE:
            result.state = State.RETRIED
            result.why = "the consumer did not acknowledge it, so the broker moved it to the retry subject"
        else:
            result.state, result.acked_at_ms = State.ACKED, entry.at_ms
            is_known = result.consumer_id is not None
            result.why = "" if is_known else "the consumer has left, so only the key of its ID is known"
        break
    return result


async def trace(
    store: MessageStore, subject: Subject, sequence: int, *, only_group: str | None, after: str, masks: Masks
) -> dict[str, Any]:
    """Returns the message and its state in at most TRACE_GROUPS_MAX groups; the caller checks the sequence. Raises LogError."""
    await begin_adjusted(store, subject)
    message = await _message(store, subject, sequence, masks)
    names = sorted(name for name in subject.groups if name > after) if only_group is None else [only_group]
    page = names[:TRACE_GROUPS_MAX]
    groups = []
    for name in page:
        group = subject.groups.get(name)
        if group is None:
            continue  # removed in the meantime
        groups.append(await _in_group(store, subject, group, sequence, message))
    return {
        "subject": subject.name,
        "sequence": sequence,
        "message": message,
        "message_why": None if message is not None else "deleted by retention",
        "original": _original(subject, message),
        "groups": groups,
        "next_after": page[-1] if len(names) > len(page) else None,
        "scope": "this node only; attempts stored on other broker groups are not included",
    }


async def _message(store: MessageStore, subject: Subject, sequence: int, masks: Masks) -> dict[str, Any] | None:
    """Returns a stored message as JSON, masked, after a repair if it fails its checks; None if retention deleted it."""
    criteria = Criteria(with_unreadable=True, masks=masks)
    done = await scan(store, subject, criteria, sequence, sequence + 1, limit=1, scan_limit=1)
    return next(iter(done.messages), None)


def _original(subject: Subject, message: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the original of a message of a retry or dead-letter subject."""
    name = split_subject(subject.name)
    if name.kind == "real" or message is None or "message_id" not in message:
        return None
    return {"subject": name.subject, "message_id": message["message_id"], "attempt": _attempt(message)}


def _attempt(message: dict[str, Any]) -> int:
    return whole_number(message["properties"].get(KEY_ATTEMPT), 1)


async def _in_group(
    store: MessageStore, subject: Subject, group: Group, sequence: int, message: dict[str, Any] | None
) -> dict[str, Any]:
    result = await delivery_state(store, subject, group, sequence)
    retries, dead, why = await _links(store, subject, group, sequence, message, result)
    if result.state in (None, State.ACKED, State.RETRIED):
        # Before a reset of the position the same message may have been delivered and retried.
        since = result.pulled_at_ms or 0
        if any(link["stored_at_ms"] >= since for link in dead):
            result.state, result.why = State.DEAD, ""
        elif any(link["stored_at_ms"] >= since for link in retries):
            result.state, result.why = State.RETRIED, ""
    return {
        "group": group.progress.group,
        "broadcast": group.progress.broadcast,
        **result.as_json(),
        "retries": retries,
        "dead_letters": dead,
        "links_complete": not why,
        "links_why": why or None,
    }


async def _links(
    store: MessageStore,
    subject: Subject,
    group: Group,
    sequence: int,
    message: dict[str, Any] | None,
    result: DeliveryState,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    """Returns later attempts in the group's retry subject, copies in its dead-letter subject, and why they may be incomplete."""
    if message is None or "message_id" not in message:
        return [], [], "the message can't be read, so its ID is unknown"
    name = group.progress.group
    found: list[list[dict[str, Any]]] = [[], []]
    why = ""
    for links, other_name in zip(
        found, (retry_subject(subject.name, name), dead_letter_subject(subject.name, name)), strict=True
    ):
        other = store.subjects.get(other_name)
        if other is None:
            continue
        await begin_adjusted(store, other)
        begin = sequence + 1 if other is subject else await other.find_time(message["stored_at_ms"])
        criteria = Criteria(message_id=message["message_id"])
        done = await scan(store, other, criteria, begin, other.visible_end, limit=LINKS_MAX, scan_limit=LINK_SCAN_MAX)
        if done.next_sequence is not None:
            why = f"{other_name} was searched only up to sequence {done.reached} of {done.end}"
        elif done.unreadable:
            why = counted(done.unreadable, "message") + f" of {other_name} can't be read"
        reader = other.groups.get(name)
        for copy in done.messages:
            if not _may_be_next(message, copy, result):
                continue
            link = {
                "subject": other_name,
                "sequence": copy["sequence"],
                "stored_at_ms": copy["stored_at_ms"],
                "attempt": _attempt(copy),
            }
            # A group that has not pulled its retry subject yet starts with its first message.
            mark = State.WAITING if links is found[0] else State.DEAD
            there = DeliveryState(mark, "the consumer group has not pulled this subject yet")
            if reader is not None:
                there = await delivery_state(store, other, reader, copy["sequence"])
            links.append(link | there.as_json())
    return found[0], found[1], why


def _may_be_next(message: dict[str, Any], copy: dict[str, Any], result: DeliveryState) -> bool:
    """Returns False for the next attempt of another message with the same ID, recognized by its pull sequence."""
    if result.pull_sequence is None or _attempt(copy) != _attempt(message) + 1:
        return True
    named = copy["properties"].get(KEY_PULL_OFFSET)
    return named is None or named == str(result.pull_sequence)
