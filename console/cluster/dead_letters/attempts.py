"""The attempts that ended in a dead letter: each delivery of the message to its group, as far as the nodes still know.

A consumer that fails sends the message back as the next attempt, into the group's retry subject on any broker group, and at last
into its dead-letter subject. So an attempt ended when the next one was stored, and what its consumer wrote into the
properties is what differs between the two.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b

from console.cluster import limits
from console.cluster.asking import ask, brokers
from console.cluster.dead_letters.causes import cause_of
from console.cluster.dead_letters.reading import DeadLetter, dead_letter_of
from console.cluster.merging import Row
from console.cluster.messages import OLDEST, or_empty, whole_property, with_id
from metaserver import queries
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol.masking import Masks
from qmq.protocol.messages import KEY_ATTEMPT
from qmq.protocol.names import retry_subject

FOUND_MAX = 50
"""Attempts of one subject on one broker group that are shown."""
CLOCKS_MS = 3_600_000
"""Maximum deviation of the clock of the client that created a message's ID."""
_TIME_OF_ID = re.compile(r"([0-9]{6}\.[0-9]{6})\..+")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A delivery of the message. What could not be known is None, and `why` says the reason."""

    number: int
    subject: str
    message: Row
    """As its node shows it, with `broker_group`."""
    consumer_id: str | None = None
    consumer_key: str | None = None
    """What a node keeps of a consumer that left, instead of its id."""
    pulled_at_ms: int | None = None
    ended_at_ms: int | None = None
    """When the next attempt, or the dead letter, was stored."""
    cause: str | None = None
    """Why it failed, as its consumer wrote it into the next attempt; None: it recorded nothing, or the next one is unknown."""
    why: str = ""
    changes: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """Properties that differ from the attempt before: name -> (before, now); None: it was not there."""


@dataclass(frozen=True, slots=True)
class Story:
    """A dead letter with its attempts in their order."""

    dead_letter: DeadLetter
    attempts: list[Attempt]
    changes: Mapping[str, tuple[str | None, str | None]]
    """What the dead letter's properties have other than the last attempt's."""
    holes: list[str]
    """Why attempts may be missing; empty: none is."""


def story_of(subject: str, group: str, broker_group: str, sequence: int, *, masks: Masks) -> Story:
    """A dead letter and how it came to be one.

    Raises:
        NotFound: there is no such dead letter.
        ConnectionLost: its broker group can't be reached.
    """
    dead_letter = dead_letter_of(subject, group, broker_group, sequence, masks=masks)
    message_id = dead_letter.message.get("message_id")
    if message_id is None:
        return Story(dead_letter, [], {}, ["The dead letter is corrupted, so its original message is unknown."])
    nodes = brokers()
    found = ask(
        lambda: nodes.answers(
            lambda name, admin: _look(admin, name, subject, group, dead_letter.message, masks),
            seconds=limits.SEARCH_SECONDS,
        )
    )
    holes = [f"Broker group {name} could not be reached: {why}" for name, why in found.unreachable.items()]
    attempts: list[Attempt] = []
    for part, why in found.values.values():
        attempts += part
        holes += why
    attempts, changes = _in_order(_named(attempts, queries.client_ids(group)), dead_letter.message)
    given_up_at = whole_property(dead_letter.message, KEY_ATTEMPT, None)
    missing = sorted(set(range(1, given_up_at or 1)) - {attempt.number for attempt in attempts})
    if missing:
        text = ", ".join(map(str, missing[:FOUND_MAX]))
        holes.append(f"Attempt {text} was not found. It was deleted by retention or is outside the searched range.")
    return Story(dead_letter, attempts, changes, holes)


async def _look(
    admin: NodeAdmin, broker_group: str, subject: str, group: str, dead_letter: Row, masks: Masks
) -> tuple[list[Attempt], list[str]]:
    """The attempts that one broker group stores, and why that may not be all. One question after the other: a node has few
    turns for searches."""
    attempts, holes = [], []
    for name in (subject, retry_subject(subject, group)):
        page = await or_empty(
            admin.search(
                name, filters=[with_id(dead_letter["message_id"])], order=OLDEST,
                from_time=made_at_ms(dead_letter["message_id"]), to_time=dead_letter["stored_at_ms"] + CLOCKS_MS,
                limit=FOUND_MAX, masks=masks,
            )
        )  # fmt: skip
        for message in page["messages"]:
            row = {**message, "broker_group": broker_group}
            attempt = Attempt(whole_property(row, KEY_ATTEMPT, 1), name, row)
            attempts.append(await _with_consumer(admin, attempt, group, masks))
        if page["next_sequence"] is not None:
            holes.append(f"{name} on {broker_group} was searched only up to sequence {page['next_sequence']}.")
    return attempts, holes


async def _with_consumer(admin: NodeAdmin, attempt: Attempt, group: str, masks: Masks) -> Attempt:
    try:
        found = await admin.trace(attempt.subject, attempt.message["sequence"], group=group, masks=masks)
    except NodeRefused as error:
        return replace(attempt, why=str(error))
    for standing in found["groups"]:
        return replace(
            attempt,
            consumer_id=standing["consumer_id"],
            consumer_key=standing["consumer_key"],
            pulled_at_ms=standing["pulled_at_ms"],
            why=standing["why"] or "",
        )
    return replace(attempt, why="the group no longer exists there")


def _named(attempts: list[Attempt], client_ids: Iterable[str]) -> list[Attempt]:
    """The attempts with the ids of consumers that left, where a client that once registered has their key. Pure."""
    by_key = {blake2b(name.encode(), digest_size=8).hexdigest(): name for name in client_ids}
    named = []
    for attempt in attempts:
        if attempt.consumer_id is not None or attempt.consumer_key is None:
            named.append(attempt)
        elif attempt.consumer_key in by_key:
            named.append(replace(attempt, consumer_id=by_key[attempt.consumer_key], why=""))
        else:
            named.append(
                replace(attempt, why=attempt.why or "the consumer has left, so only the key of its ID is known")
            )
    return named


def made_at_ms(message_id: str) -> int | None:
    """From when on to look for a message: its id begins with when it was made; None for ids of another make. Pure."""
    match = _TIME_OF_ID.fullmatch(message_id)
    if match is None:
        return None
    try:
        made = datetime.strptime(match[1], "%y%m%d.%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    # Official clients write their local time.
    return max(0, int(made.timestamp() * 1000) - 14 * 3_600_000 - CLOCKS_MS)


def _in_order(
    attempts: list[Attempt], dead_letter: Row
) -> tuple[list[Attempt], Mapping[str, tuple[str | None, str | None]]]:
    """The attempts by the time they were stored, each with its end and what it changed; and what the dead letter changed. Pure."""
    ordered = sorted(attempts, key=lambda item: (item.message["stored_at_ms"], item.number))
    rows = [attempt.message for attempt in ordered]
    following = [*rows, dead_letter][1:]
    before = [None, *rows][: len(rows)]
    completed = [
        replace(
            attempt,
            ended_at_ms=later["stored_at_ms"],
            cause=cause_of(later) if whole_property(later, KEY_ATTEMPT, None) == attempt.number + 1 else None,
            changes={} if earlier is None else differences(earlier, row),
        )
        for attempt, row, earlier, later in zip(ordered, rows, before, following, strict=True)
    ]
    return completed, differences(rows[-1], dead_letter) if rows else {}


def differences(before: Row, now: Row) -> dict[str, tuple[str | None, str | None]]:
    """Properties that two messages don't have alike. Pure."""
    old, new = before.get("properties", {}), now.get("properties", {})
    return {name: (old.get(name), new.get(name)) for name in sorted({*old, *new}) if old.get(name) != new.get(name)}
