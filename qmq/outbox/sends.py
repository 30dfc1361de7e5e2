"""Sends of a relay: rows of several subjects at once, each subject's in the order of their IDs.

An outage must not change rows, nor delay other subjects: a subject of which a whole chunk fails is unavailable, its rows are left
as they are, and one row is tried every REST_SECONDS, for which nothing waits.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from qmq.client.outgoing import Key, Outcome, is_refusal
from qmq.client.producer import Producer
from qmq.clock import Clock
from qmq.errors import QmqError
from qmq.protocol.codes import ClientType
from qmq.protocol.messages import FLAG_DELAY
from qmq.protocol.raw import Message
from qmq.receipt import Receipt

SEND_SECONDS = 5.0
"""How long a chunk of rows may take, with all attempts, until its subject counts as unavailable."""
REST_SECONDS = 2.0
"""Between two tries of an unavailable subject."""
CHUNK_ROWS = 500
CHUNK_BYTES = 1 << 20
"""Of one request, unless a message is larger. A subject has one at a time."""
GROWTH = 8
"""A subject that is available again gets chunks of 1, 8, 64 and then CHUNK_ROWS rows."""
SUBJECTS_MAX = 10_000
"""Subjects whose availability is remembered; one more, and the others are forgotten."""


@dataclass(frozen=True, slots=True)
class Due:
    """A row that is to be sent."""

    id: int
    message: Message
    entry: bytes
    errors: int
    """Failed attempts so far."""
    age_ms: int


@dataclass(slots=True)
class Sent:
    """What became of rows. Those in no list are left as they are: their subject is unavailable."""

    stored: list[int] = field(default_factory=list)
    refused: list[tuple[int, QmqError]] = field(default_factory=list)
    """A broker will never accept them."""
    failed: list[tuple[Due, QmqError]] = field(default_factory=list)
    """Their own fault, as far as can be known: other rows of their subject are stored."""
    left: list[Due] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    """By unavailable subject, why."""


@dataclass(slots=True)
class _Subject:
    """What the last sends have shown."""

    problem: str = ""
    """Why it is unavailable; "" while it is not."""
    chunk_rows: int = CHUNK_ROWS
    rest_until: float = 0.0
    probe: tuple[Due, "asyncio.Future[Outcomes]"] | None = None
    """A row that is tried while the subject is unavailable. Nothing waits for it."""
    suspect: int | None = None
    """A row that failed alone. If it fails again right after another row was stored, it is its own fault."""


Outcomes = Sequence[Receipt | QmqError]


class _Outcomes:
    """Collects the outcomes of one request's rows in one future."""

    def __init__(self, count: int) -> None:
        self.future: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()
        self._found: list[Any] = [None] * count
        self._missing = count

    def set(self, place: int, outcome: Outcome) -> None:
        self._found[place] = outcome
        self._missing -= 1
        if not self._missing:
            self.future.set_result(self._found)


class Sends:
    """Sends rows with a producer, on its event loop. What it knows of subjects lasts from call to call."""

    def __init__(self, producer: Producer, clock: Clock) -> None:
        self._producer = producer
        self._clock = clock
        self._subjects: dict[Key, _Subject] = {}

    async def send(self, rows: Sequence[Due]) -> Sent:
        """Send rows, given by ascending ID, and wait for the outcome of each row of an available subject.

        The result may contain rows of earlier calls.
        """
        found = Sent()
        tried = self._collect_probes(found)
        by_subject: dict[Key, list[Due]] = {}
        for row in rows:
            if row.id not in tried:
                client_type = ClientType.DELAY_PRODUCER if row.message.flag & FLAG_DELAY else ClientType.PRODUCER
                by_subject.setdefault((row.message.subject, client_type), []).append(row)
        await asyncio.gather(*(self._send_subject(key, of_subject, found) for key, of_subject in by_subject.items()))
        return found

    def forget(self) -> None:
        """Forget all rows: their database may be another copy of it from now on, in which their IDs are those of other rows."""
        self._subjects.clear()

    def _collect_probes(self, found: Sent) -> set[int]:
        """Add the outcomes of probes. Returns the rows that were or are being tried."""
        tried: set[int] = set()
        for subject in self._subjects.values():
            if subject.probe is not None:
                row, outcomes = subject.probe
                tried.add(row.id)
                if outcomes.done():
                    subject.probe = None
                    self._judge(subject, [row], outcomes.result(), found)
        return tried

    async def _send_subject(self, key: Key, rows: list[Due], found: Sent) -> None:
        subject = self._subject(key)
        at = 0
        while at < len(rows) and not subject.problem:
            chunk = _next_chunk(rows, at, subject)
            self._judge(subject, chunk, await self._start(key, chunk), found)
            at += len(chunk)
        if subject.problem:
            found.problems[key[0]] = subject.problem
            found.left += rows[at:]
            if subject.probe is None and at < len(rows) and self._clock.monotonic() >= subject.rest_until:
                # Another row than the one that failed alone, so that one row can't make the subject seem unavailable.
                row = next((row for row in rows[at:] if row.id != subject.suspect), rows[at])
                subject.probe = row, self._start(key, [row])

    def _subject(self, key: Key) -> _Subject:
        if key not in self._subjects and len(self._subjects) >= SUBJECTS_MAX:
            # Rows of probes that are under way may be sent twice.
            self._subjects.clear()
        return self._subjects.setdefault(key, _Subject())

    def _judge(self, subject: _Subject, chunk: Sequence[Due], outcomes: Outcomes, found: Sent) -> None:
        """Sort a chunk's rows by their outcomes, and conclude whether the subject is available."""
        failed: list[tuple[Due, QmqError]] = []
        for row, outcome in zip(chunk, outcomes, strict=True):
            if isinstance(outcome, Receipt):
                found.stored.append(row.id)
            elif is_refusal(outcome):
                found.refused.append((row.id, outcome))
            else:
                failed.append((row, outcome))
        alone = chunk[0].id if len(chunk) == 1 else None
        if len(failed) < len(chunk):
            subject.problem = ""
            subject.chunk_rows = min(CHUNK_ROWS, subject.chunk_rows * GROWTH)
            found.failed += failed
            if subject.suspect == alone:
                subject.suspect = None
        elif alone is not None and subject.suspect == alone and not subject.problem:
            found.failed += failed
            subject.suspect = None
        else:
            subject.problem = str(failed[0][1])
            subject.suspect = alone
            subject.chunk_rows = 1
            subject.rest_until = self._clock.monotonic() + REST_SECONDS
            found.left += chunk

    def _start(self, key: Key, chunk: Sequence[Due]) -> "asyncio.Future[Outcomes]":
        outcomes = _Outcomes(len(chunk))
        try:
            self._producer.send_together(
                key[0],
                [(row.message.message_id, row.entry, partial(outcomes.set, place)) for place, row in enumerate(chunk)],
                is_delayed=key[1] is ClientType.DELAY_PRODUCER,
                seconds=SEND_SECONDS,
            )
        except QmqError as error:
            outcomes.future.set_result([error] * len(chunk))
        return outcomes.future


def _next_chunk(rows: Sequence[Due], at: int, subject: _Subject) -> Sequence[Due]:
    """The next rows for one request. A row that failed alone is sent alone again."""
    chunk: list[Due] = []
    size = 0
    for row in rows[at : at + subject.chunk_rows]:
        size += len(row.entry)
        if chunk and (size > CHUNK_BYTES or row.id == subject.suspect):
            break
        chunk.append(row)
        if row.id == subject.suspect:
            break
    return chunk
