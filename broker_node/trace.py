"""What became of one message in each consumer group of its subject, as far as this node's logs still tell.

Three sources, from sure to less so: the pull logs (who holds it now), the groups' positions, and the groups' histories (progress
logs) read backward from now. Every pull of a message lies behind it in the log, so a history tells all about a message that is
still stored, unless it is longer than is read here. What can't be told is said so, with the reason; nothing is guessed.
"""

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from broker_node.actions import RecordKind
from broker_node.browse import browse
from broker_node.index_repair import DamagedEntries
from broker_node.progress_log import LAYOUT, LAYOUT_AT, PROGRESS_ENTRY, PROGRESS_ENTRY_BYTES, consumer_key, is_whole
from broker_node.search import Wanted, scan
from broker_node.store import MessageStore
from broker_node.subject import Group, Subject
from qmq.protocol.messages import KEY_ATTEMPT, KEY_PULL_OFFSET
from qmq.protocol.names import dead_letter_subject, retry_subject, split_subject
from qmq.words import counted

TRACE_GROUPS_MAX = 50
"""Most groups of one answer; the rest comes with `after`."""
HISTORY_ENTRIES_MAX = 20_000
"""Most entries of a group's history read for one message."""
HISTORY_SLICE = 1_000
"""Entries read before the event loop serves clients again."""
LINK_SCAN_MAX = 5_000
"""Most messages of a group's retry subject, and of its dead-letter subject, looked through for later attempts."""
LINKS_MAX = 50
"""Most later attempts of one group shown."""


class State(StrEnum):
    """What became of a message in a group."""

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
    """The group passed it without taking it: its position was set past it, or its filter left it out."""
    EXPIRED = "expired"
    """Retention removed it before the group came to it."""


@dataclass(slots=True)
class Standing:
    """A message in a group. `state` None: it can't be known any more, `why` says the reason."""

    state: State | None
    why: str = ""
    consumer_id: str | None = None
    key: int | None = None
    """The puller's `consumer_key`: what histories keep of a consumer's id."""
    pull_sequence: int | None = None
    pulled_at_ms: int | None = None
    acked_at_ms: int | None = None

    def as_json(self) -> dict[str, Any]:
        """As answers show it."""
        return {
            "state": self.state,
            "known": self.state is not None,
            "why": self.why or None,
            "consumer_id": self.consumer_id,
            "consumer_key": None if self.key is None else f"{self.key:016x}",
            "pull_sequence": self.pull_sequence,
            "pulled_at_ms": self.pulled_at_ms,
            "acked_at_ms": self.acked_at_ms,
        }


class _HistoryEntry(NamedTuple):
    at_ms: int
    key: int
    begin: int
    end: int
    next_sequence: int
    kind: int
    check: int
    layout: int


_NEXT_SEQUENCE = _HistoryEntry._fields.index("next_sequence")


@dataclass(slots=True)
class Passing:
    """The action by which a group came past a sequence, found by walking its history backward. Pure."""

    sequence: int
    consumer: int | None = None
    """With `pull_sequence`: look for the pull of this consumer instead."""
    pull_sequence: int | None = None
    found: _HistoryEntry | None = None
    came_from: int | None = None
    """Where the group stood before; None when the history begins with the action found."""
    settled: list[_HistoryEntry] = field(default_factory=list)
    """Acks, settlements and departures met on the way, newest first."""
    is_damaged: bool = False

    @property
    def is_over(self) -> bool:
        return self.found is not None or self.is_damaged

    def look(self, data: bytes, has_earlier: bool) -> None:
        """Entries in the order of the history; with `has_earlier` the first only tells where the second came from."""
        rows = list(PROGRESS_ENTRY.iter_unpack(data))
        for i in range(len(rows) - 1, 0 if has_earlier else -1, -1):
            if not is_whole(data, i * PROGRESS_ENTRY_BYTES) or (
                i and not is_whole(data, (i - 1) * PROGRESS_ENTRY_BYTES)
            ):
                self.is_damaged = True
                return
            entry = _HistoryEntry._make((*rows[i], data[i * PROGRESS_ENTRY_BYTES + LAYOUT_AT]))
            came_from = rows[i - 1][_NEXT_SEQUENCE] if i else None
            if self._is_it(entry, came_from):
                self.found, self.came_from = entry, came_from
                return
            if entry.kind in (RecordKind.ACK, RecordKind.SETTLE, RecordKind.OFFLINE):
                self.settled.append(entry)

    def _is_it(self, entry: _HistoryEntry, came_from: int | None) -> bool:
        if self.consumer is not None and self.pull_sequence is not None:
            is_pull = entry.kind == RecordKind.PULL and entry.key == self.consumer
            return is_pull and entry.begin <= self.pull_sequence < entry.end
        return entry.next_sequence > self.sequence and (came_from is None or came_from <= self.sequence)


async def _walk(group: Group, passing: Passing) -> str:
    """Walk a group's history backward as of now; "" when what was looked for was found, else why not."""
    history = group.history
    at, oldest = history.end, max(history.begin, history.end - HISTORY_ENTRIES_MAX)
    while at > oldest:
        begin = max(oldest, at - HISTORY_SLICE)
        has_earlier = begin > history.begin
        data = history.read(begin - 1 if has_earlier else begin, at)
        if len(data) != (at - begin + has_earlier) * PROGRESS_ENTRY_BYTES:
            return "the history of the consumer group was deleted during the search"
        passing.look(data, has_earlier)
        if passing.is_damaged:
            return "an entry in the history of the consumer group is corrupted"
        if passing.found is not None:
            return ""
        at = begin
        await asyncio.sleep(0)
    if oldest > history.begin:
        return f"more than {HISTORY_ENTRIES_MAX} actions of the consumer group ago"
    return "the history of the consumer group does not go back that far"


async def standing(store: MessageStore, subject: Subject, group: Group, sequence: int) -> Standing:
    """What became of a sequence in a group, by positions, pull logs and history; later attempts are not looked for."""
    progress = group.progress
    for consumer in progress.consumers.values():
        for run in consumer.log.runs():
            if run.begin <= sequence < run.begin + run.count:
                pull_sequence = run.pull_begin + sequence - run.begin
                key = consumer_key(consumer.consumer_id)
                held = Standing(State.IN_FLIGHT, "", consumer.consumer_id, key, pull_sequence)
                passing = Passing(sequence, key, pull_sequence)
                why = await _walk(group, passing)
                held.pulled_at_ms = passing.found.at_ms if passing.found is not None else None
                held.why = f"time of the pull unknown: {why}" if why else ""
                return held
    if progress.next_sequence <= sequence:
        return Standing(State.WAITING if sequence >= subject.begin else State.EXPIRED)
    names = {consumer_key(name): name for name in progress.consumers}
    is_stored = sequence >= subject.begin
    passing = Passing(sequence)
    why = await _walk(group, passing)
    if why or passing.found is None:
        return Standing(None, why)
    found = passing.found
    if found.kind == RecordKind.START:
        if passing.came_from is None and (store.log.damaged or not is_stored):
            return Standing(
                None, "the history of the consumer group starts after this message; earlier history is lost"
            )
        return Standing(State.SKIPPED, f"the position was reset past this message, to sequence {found.next_sequence}")
    if found.kind != RecordKind.PULL:
        return Standing(None, "the history of the consumer group starts with the action that passed this message")
    if found.layout != LAYOUT:
        return Standing(
            None, "this part of the history was written by an older version, which did not record individual messages"
        )
    pull_sequence = found.end - (found.next_sequence - sequence)
    if pull_sequence < found.begin:
        if passing.came_from is None:
            return Standing(None, "the history of the consumer group starts with the action that passed this message")
        return Standing(State.SKIPPED, "excluded by the consumer's filter, unreadable, or deleted by retention")
    result = Standing(None, "", names.get(found.key), found.key, pull_sequence, found.at_ms)
    for entry in reversed(passing.settled):
        if entry.key == found.key and entry.kind == RecordKind.OFFLINE:
            result.why = "the consumer left without acknowledging it"
            return result
        if entry.key == found.key and entry.begin <= pull_sequence < entry.end:
            if entry.kind == RecordKind.SETTLE:
                result.state = State.RETRIED
                result.why = "the consumer did not acknowledge it, so the broker moved it to the retry subject"
                return result
            result.state, result.acked_at_ms = State.ACKED, entry.at_ms
            if result.consumer_id is None:
                result.why = "the consumer has left, so only the key of its ID is known"
            return result
    result.why = "pulled, but neither acknowledged nor held by a known consumer"
    return result


async def trace(
    store: MessageStore, subject: Subject, sequence: int, *, only_group: str | None, after: str
) -> dict[str, Any]:
    """The message and what became of it in each group, `TRACE_GROUPS_MAX` at most; the caller checks the sequence.

    Raises:
        LogError: an index can't be read.
    """
    store.adjust_begin(subject)
    message = await _message(store, subject, sequence)
    names = sorted(name for name in subject.groups if name > after) if only_group is None else [only_group]
    page = names[:TRACE_GROUPS_MAX]
    groups = []
    for name in page:
        group = subject.groups.get(name)
        if group is None:
            continue  # forgotten meanwhile
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


async def _message(store: MessageStore, subject: Subject, sequence: int) -> dict[str, Any] | None:
    """A stored message as the browser shows it, after a repair if it fails its checks; None when retention deleted it."""
    while sequence >= subject.begin:
        try:
            return next(iter(browse(store, subject, sequence, 1)["messages"]), None)
        except DamagedEntries as damaged:
            await damaged.complete_in_thread(store.message_log)
    return None


def _original(subject: Subject, message: dict[str, Any] | None) -> dict[str, Any] | None:
    """For a message of a retry or dead-letter subject: what it is an attempt of."""
    name = split_subject(subject.name)
    if name.kind == "real" or message is None or "message_id" not in message:
        return None
    return {"subject": name.subject, "message_id": message["message_id"], "attempt": _attempt(message)}


def _attempt(message: dict[str, Any]) -> int:
    text = message["properties"].get(KEY_ATTEMPT, "1")
    return int(text) if text.isdecimal() else 1


async def _in_group(
    store: MessageStore, subject: Subject, group: Group, sequence: int, message: dict[str, Any] | None
) -> dict[str, Any]:
    result = await standing(store, subject, group, sequence)
    retries, dead, why = await _links(store, subject, group, sequence, message, result)
    if result.state in (None, State.ACKED, State.RETRIED):
        # After a reset the same message may have been tried, and retried, in an earlier round.
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
    result: Standing,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], str]:
    """Later attempts in the group's retry subject, copies in its dead-letter subject, and why that may not be all."""
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
        store.adjust_begin(other)
        begin = sequence + 1 if other is subject else other.consume_log.find_time(message["stored_at_ms"])
        wanted = Wanted(message_id=message["message_id"])
        done = await scan(store, other, wanted, begin, other.visible_end, limit=LINKS_MAX, scan_limit=LINK_SCAN_MAX)
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
            # A group that never pulled its retry subject begins with all that is in it.
            mark = State.WAITING if links is found[0] else State.DEAD
            there = Standing(mark, "the consumer group has not pulled this subject yet")
            if reader is not None:
                there = await standing(store, other, reader, copy["sequence"])
            links.append(link | there.as_json())
    return found[0], found[1], why


def _may_be_next(message: dict[str, Any], copy: dict[str, Any], result: Standing) -> bool:
    """False for the next attempt of another message with the same id: it names another pull sequence."""
    if result.pull_sequence is None or _attempt(copy) != _attempt(message) + 1:
        return True
    named = copy["properties"].get(KEY_PULL_OFFSET)
    return named is None or named == str(result.pull_sequence)
