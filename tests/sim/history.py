"""What the outside world did and saw in one run: the facts that the checks are about."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Sent:
    """One send. Times are true wall milliseconds, which no clock step changes."""

    message_id: str
    subject: str
    properties: Mapping[str, str]
    tags: tuple[str, ...]
    due_ms: int | None = None
    """Of a delayed message, as last confirmed."""
    is_acked: bool = False
    """The send was answered with a receipt."""
    is_refused: bool = False
    """The send was answered with a refusal: the message is not stored."""
    cancelled_ms: int | None = None
    """When a cancel was confirmed."""
    may_be_cancelled: bool = False
    """A cancel was asked for, and its answer is unknown."""
    earliest_due_ms: int | None = None
    """The earliest due time that any reschedule, answered or not, may have given it."""


@dataclass(frozen=True, slots=True)
class Got:
    """One delivery."""

    message_id: str
    subject: str
    group: str
    consumer: str
    broker_group: str
    pull_sequence: int
    attempt: int
    at_ms: int
    properties: Mapping[str, str]
    tags: tuple[str, ...]


@dataclass
class History:
    """Everything in the order in which it happened."""

    sent: dict[str, Sent] = field(default_factory=dict)
    """By message id."""
    got: list[Got] = field(default_factory=list)
    settled: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    """(consumer group, message id) -> how often an ack of it was confirmed."""
    got_after_settled: list[Got] = field(default_factory=list)
    """Deliveries to a consumer group that had confirmed its ack of the message."""
    problems: list[str] = field(default_factory=list)
    """Broken promises that were seen at once."""

    def deliver(self, got: Got) -> None:
        """A consumer got a message."""
        if self.settled[got.group, got.message_id]:
            self.got_after_settled.append(got)
        self.got.append(got)

    def settle(self, group: str, message_id: str) -> None:
        """The broker confirmed an ack."""
        self.settled[group, message_id] += 1
