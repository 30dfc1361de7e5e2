"""Messages on their way to a node, and what its responses mean for them.

A batch is one request, and carries for each message who waits for its outcome.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from qmq.client.middleware import OutgoingMessage
from qmq.errors import QmqError, SendFailed, SendManyFailed
from qmq.net.caller import Caller, timed_out
from qmq.protocol.codes import ClientType, Command, ResponseCode, SendResult
from qmq.protocol.commands import BrokerGroupRoute, SendFailure, decode_send_response
from qmq.protocol.frames import Frame
from qmq.protocol.names import NO_SPACE, is_subject_refusal
from qmq.receipt import Receipt
from qmq.words import printable
from qmq.words import seconds as seconds_text

Outcome = Receipt | SendFailed
Key = tuple[str, ClientType]
"""Subject, and as what the producer registers for it: the messages of a batch share it. A DELAY_PRODUCER sends to delay groups."""
Token = asyncio.Future[Receipt] | Callable[[Outcome], object]
"""Where the outcome of one message goes."""
Encoded = tuple[str, bytes, Callable[[Outcome], object]]
"""A message's ID, its entry, and what is called with its outcome."""


class ManyOutcomes:
    """Collects the outcomes of one `send_many` in one future. `observe` gets those of messages that middleware has seen."""

    def __init__(self, loop: asyncio.AbstractEventLoop, observe: Callable[[OutgoingMessage, Outcome], None]) -> None:
        self._observe = observe
        self._observed: dict[int, OutgoingMessage] = {}
        self.future: asyncio.Future[list[Receipt]] = loop.create_future()
        self._outcomes: list[Receipt | QmqError] = []
        self._open = 1
        """Messages without an outcome, and one more until `complete`."""

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

    def set(self, places: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        found = self._outcomes
        for place, outcome in zip(places, outcomes, strict=True):
            found[place] = outcome
            if self._observed:
                self._observe(self._observed.pop(place), outcome)
        self._count_down(len(places))

    def complete(self) -> None:
        """No more messages follow."""
        self._count_down(1)

    def _count_down(self, count: int) -> None:
        self._open -= count
        if self._open or self.future.done():
            return
        if any(isinstance(outcome, QmqError) for outcome in self._outcomes):
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
    attempts_before: int = 0
    """Of these, the ones at former masters, which do not lengthen the back-off."""
    group: str = ""
    """The broker group of the newest attempt."""
    last_group: str = ""
    """The broker group that an attempt failed at."""
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

    def add(self, message_id: str, entry: bytes) -> None:
        """Add a message; its token or place is added apart."""
        self.ids.append(message_id)
        self.entries.append(entry)
        self.size += len(entry)

    def end_rest(self) -> None:
        """Its broker group has another master: the back-off after earlier attempts ends."""
        self.not_before = 0.0
        self.attempts_before = self.attempts

    def end_wait(self) -> None:
        if self.queued is not None and not self.queued.done():
            self.queued.set_result(None)

    def part(self, numbers: Iterable[int]) -> "Batch":
        """A batch of some of its messages, with the same history."""
        numbers = list(numbers)
        lists: dict[str, Any] = {}
        for name in ("entries", "ids", "tokens", "places"):
            values = getattr(self, name)
            lists[name] = [values[number] for number in numbers] if values else []
        return replace(self, **lists, size=sum(map(len, lists["entries"])), is_open=False, queued=None)

    def receipts(self, group: str) -> list[Outcome]:
        subject, attempts = self.subject, self.attempts
        return [Receipt(message_id, subject, group, attempts) for message_id in self.ids]

    def no_space_errors(self, problem: str = "") -> list[Outcome]:
        """The errors of messages that no broker or delay group has space for."""
        problem = problem or self.last_problem
        kind = "delay group" if self.key[1] is ClientType.DELAY_PRODUCER else "broker group"
        stored = "it may be stored by an earlier attempt" if self.may_be_stored else "it is not stored"
        text = f"of {self.subject}; {stored}" + (f". Last: {problem}" if problem else "")
        return [
            SendFailed(
                f"no {kind} has space for message {printable(message_id)} {text}",
                code="client.no_space",
                retriable=True,
            )
            for message_id in self.ids
        ]

    def not_confirmed_errors(self) -> list[Outcome]:
        """The errors of messages that were not stored in their time."""
        seconds = self.give_up_at - self.opened_at
        stored = "it may be stored" if self.may_be_stored else "it is not stored"
        text = f"was not confirmed in {seconds_text(seconds)} and {self.attempts} attempts; {stored}."
        problem = self.last_problem or "it was not sent yet"
        return [
            SendFailed(f"message {printable(message_id)} for {self.subject} {text} Last: {problem}", retriable=True)
            for message_id in self.ids
        ]


_PERMANENT = {SendResult.BLOCK, SendResult.SUBJECT_NOT_ASSIGNED}
"""The broker will never take this message: trying again is of no use."""


def failures_in(
    response: "asyncio.Future[Frame]", route: BrokerGroupRoute, caller: Caller, seconds: float
) -> dict[str, SendFailure]:
    """Failures by message ID; empty when all are stored. Raises QmqError if it is unknown which messages are stored."""
    if response.cancelled():
        raise timed_out(caller.address, Command.SEND_MESSAGE, seconds)
    frame = response.result()
    if frame.code != ResponseCode.SUCCESS:
        raise SendFailed(f"{route.name} returned code {frame.code}")
    return decode_send_response(frame.body) if frame.body else {}


@dataclass(slots=True)
class Classified:
    """The messages of a batch, by their numbers in it, sorted by what became of them."""

    stored: list[int] = field(default_factory=list)
    rejected: dict[int, SendFailed] = field(default_factory=dict)
    """Those that the broker will never take, with their errors."""
    full: list[int] = field(default_factory=list)
    """Those that the broker group has no space for."""
    full_problem: str = ""
    not_stored: list[int] = field(default_factory=list)
    """Those to send again."""
    problem: str = ""
    is_group_fine: bool = True
    """They were rejected because of their subject; the group itself works."""


def classify(batch: Batch, failures: dict[str, SendFailure], group: str) -> Classified:
    """Sort the messages of a batch by the failures that a broker group reported."""
    found = Classified()
    for place, message_id in enumerate(batch.ids):
        failure = failures.get(message_id)
        if failure is None or failure.result == SendResult.MESSAGE_DUPLICATE:
            found.stored.append(place)
        elif failure.result in _PERMANENT:
            text = f"{group} rejected message {printable(message_id)}: {printable(failure.remark)} (result {failure.result})"
            found.rejected[place] = SendFailed(text, code=_code_of(failure.remark))
        elif failure.remark.startswith(NO_SPACE):
            found.full.append(place)
            found.full_problem = f"{group}: {failure.remark}"
        else:
            found.problem = f"{group}: {failure.remark or 'not stored'} (result {failure.result})"
            found.is_group_fine = found.is_group_fine and is_subject_refusal(failure.remark)
            found.not_stored.append(place)
    return found


_REFUSED = "client.message_refused"
_DELAY = "delay."


def _code_of(remark: str) -> str:
    """The code that a node's remark begins with, if it does."""
    code, colon, _ = remark.partition(": ")
    return code if colon and code.startswith(_DELAY) else _REFUSED


def is_refusal(error: QmqError) -> bool:
    """Whether a node will never accept the message. Any other error can be of the producer, its connection or the subject."""
    return error.code == _REFUSED or error.code.startswith(_DELAY)
