"""What the outside world did and saw in one run: the facts that the checks are about. Times are true wall milliseconds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Sent:
    """One message that a producer tried to send."""

    message_id: str
    subject: str
    properties: Mapping[str, str]
    tags: tuple[str, ...]
    at_ms: int
    due_ms: int | None = None
    """Of a delayed message: the earliest due time that it may have."""
    is_acked: bool = False
    """The send was answered with a receipt."""
    attempts: int = 0
    """Of an acknowledged one, how often it was sent."""
    broker_group: str = ""
    """That acknowledged it; of a delayed message, its delay group."""
    is_refused: bool = False
    """The send failed, and the client reported that the message is not stored."""
    cancelled_ms: int | None = None
    """When a cancel was confirmed."""
    may_be_cancelled: bool = False
    """A cancel was tried and its outcome is unknown."""

    @property
    def is_poison(self) -> bool:
        """Whether each handler gives it back, until it is a dead letter."""
        return "poison" in self.properties


@dataclass(frozen=True, slots=True)
class Got:
    """One delivery of a message to a consumer."""

    message_id: str
    subject: str
    """The real one, also of messages that come by the retry subject."""
    source: str
    """The subject it was pulled from."""
    group: str
    consumer: str
    broker_group: str
    pull_sequence: int
    at_ms: int
    properties: Mapping[str, str]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken promise: the name of the check that found it, and what it found."""

    check: str
    what: str

    def __str__(self) -> str:
        return f"{self.check}: {self.what}"


@dataclass
class History:
    """Everything in the order in which it happened."""

    sent: dict[str, Sent] = field(default_factory=dict)
    """By message id."""
    got: list[Got] = field(default_factory=list)
    acks_tried: set[tuple[str, str]] = field(default_factory=set)
    """(consumer group, message id) of acks that were sent."""
    settled_in_time: set[tuple[str, str]] = field(default_factory=set)
    """(consumer group, message id) of acks that were confirmed while the consumer surely held the message."""
    again: list[Got] = field(default_factory=list)
    """Deliveries of messages that were settled in time before."""
    acked_by_client: dict[tuple[str, str], int] = field(default_factory=dict)
    """(consumer group, message id) -> when a handler of a real consumer acked it, which the broker may not know yet."""
    dead: set[tuple[str, str]] = field(default_factory=set)
    """(consumer group, message id) of messages whose dead letter was confirmed."""
    numbers: dict[tuple[str, str, str, str, int], str] = field(default_factory=dict)
    """(broker group, subject, consumer group, consumer and its life, pull sequence) -> message id."""
    forward_ms: int = 0
    """How far ahead of true time the clock of any delay node has been."""
    unchecked_ms: int = 0
    """The same while a delay node was away, or may have ended before it kept the step: a start accepts it."""
    damaged: set[str] = field(default_factory=set)
    """Broker groups whose log was damaged: what was in the damaged commits is withheld."""
    counts: dict[str, int] = field(default_factory=dict)
    """What else a run counts."""
    broken: list[Broken] = field(default_factory=list)
    """Broken promises that were seen at once."""

    on_seen: Callable[[str, str, str], None] | None = None
    """Called with a broker group, a message id, and how a client saw the message: an acknowledgement, or a delivery."""

    def acknowledge(self, sent: Sent) -> None:
        """A client received the receipt of a send."""
        if self.on_seen is not None:
            self.on_seen(sent.broker_group, sent.message_id, "acknowledged")

    def deliver(self, got: Got) -> None:
        """Record a delivery."""
        self.got.append(got)
        if self.on_seen is not None:
            self.on_seen(got.broker_group, got.message_id, "delivered")
        if (got.group, got.message_id) in self.settled_in_time:
            self.again.append(got)

    def number(self, got: Got, life: int) -> None:
        """Record which message a pull sequence stands for.

        Args:
            life: of the consumer on this broker; in a new one its sequences begin again.
        """
        key = (got.broker_group, got.source, got.group, f"{got.consumer}.{life}", got.pull_sequence)
        known = self.numbers.setdefault(key, got.message_id)
        if known != got.message_id and got.broker_group not in self.damaged:
            self.broken.append(Broken("sequence", f"{key} was {known}, and is {got.message_id} now"))
