"""Messages on their way to a node: a batch is one request, and carries for each message who waits for its outcome."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from qmq.client.middleware import OutgoingMessage
from qmq.client.receipt import Receipt
from qmq.errors import QmqError, SendFailed, SendManyFailed

T = TypeVar("T")
Outcome = Receipt | SendFailed
Key = tuple[str, bool]
"""Subject, and whether its messages are delayed: the messages of a batch share it."""
Token = asyncio.Future[Receipt] | Callable[[Outcome], object]
"""Where the outcome of one message goes."""


class ManyOutcomes:
    """Collects the outcomes of one `send_many` in one future. `observe` gets those of messages that middleware has seen."""

    def __init__(self, loop: asyncio.AbstractEventLoop, observe: Callable[[OutgoingMessage, Outcome], None]) -> None:
        self._observe = observe
        self._observed: dict[int, OutgoingMessage] = {}
        self.future: asyncio.Future[list[Receipt]] = loop.create_future()
        self._outcomes: list[Receipt | QmqError] = []
        self._open = 0
        self._failed = 0
        self._is_complete = False

    def reserve(self, message: OutgoingMessage | None = None) -> int:
        """The place of the next message, whose outcome is set later."""
        place = len(self._outcomes)
        self._outcomes.append(_NO_OUTCOME)
        self._open += 1
        if message is not None:
            self._observed[place] = message
        return place

    def add_failure(self, error: QmqError) -> None:
        """The next message can't be sent at all."""
        self._outcomes.append(error)
        self._failed += 1

    def set(self, places: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        """The outcomes of a batch."""
        found = self._outcomes
        for place, outcome in zip(places, outcomes, strict=True):
            found[place] = outcome
            if self._observed:
                self._observe(self._observed.pop(place), outcome)
        self._open -= len(places)
        self._failed += sum(not isinstance(outcome, Receipt) for outcome in outcomes)
        if self._is_complete and not self._open:
            self._end()

    def complete(self) -> None:
        """No more messages follow."""
        self._is_complete = True
        if not self._open:
            self._end()

    def _end(self) -> None:
        if self.future.done():
            return
        if self._failed:
            self.future.set_exception(SendManyFailed(self._outcomes))
            self.future.exception()  # no warning of asyncio if the caller was cancelled
        else:
            self.future.set_result(self._outcomes)  # type: ignore[arg-type]  # all are receipts


_NO_OUTCOME = SendFailed("the message has no outcome yet")


def hand_out(token: Token, outcome: Outcome) -> None:
    """Give the outcome of a message to its caller. A callback may raise anything."""
    if not isinstance(token, asyncio.Future):
        token(outcome)
    elif token.done():  # the caller was cancelled
        return
    elif isinstance(outcome, Receipt):
        token.set_result(outcome)
    else:
        token.set_exception(outcome)
        token.exception()  # an abandoned future logs no warning of asyncio


@dataclass(eq=False, slots=True)
class Batch:
    """Encoded messages of one subject, sent in one request. Lists run in parallel, an element per message."""

    key: Key
    opened_at: float
    give_up_at: float
    """When its messages fail if they are not stored, counted from the oldest."""
    entries: list[bytes] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    """Empty with `many`."""
    many: ManyOutcomes | None = None
    places: list[int] = field(default_factory=list)
    """In `many`, which gets the outcomes."""
    size: int = 0
    not_before: float = 0.0
    is_open: bool = False
    """More messages may join it."""
    attempts: int = 0
    last_group: str = ""
    last_problem: str = ""
    may_be_stored: bool = False
    """The outcome of an attempt is unknown."""
    queued: "asyncio.Future[None] | None" = None
    """What `send_many` awaits until the batch is in the queue, or has failed."""

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def subject(self) -> str:
        return self.key[0]

    @property
    def is_delayed(self) -> bool:
        """To a delay group, not to a broker group."""
        return self.key[1]

    def add(self, message_id: str, entry: bytes) -> None:
        """Add a message; its token or place is added apart."""
        self.ids.append(message_id)
        self.entries.append(entry)
        self.size += len(entry)

    def end_wait(self) -> None:
        """Let `send_many` continue."""
        if self.queued is not None and not self.queued.done():
            self.queued.set_result(None)

    def part(self, numbers: Iterable[int]) -> "Batch":
        """A batch of some of its messages, with the same history."""

        def chosen(values: list[T]) -> list[T]:
            return [values[number] for number in numbers] if values else []

        numbers = list(numbers)
        entries = chosen(self.entries)
        return replace(
            self,
            entries=entries,
            ids=chosen(self.ids),
            tokens=chosen(self.tokens),
            places=chosen(self.places),
            size=sum(map(len, entries)),
            is_open=False,
            queued=None,
        )
