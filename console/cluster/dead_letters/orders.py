"""Selections of dead letters to replay or delete, and the results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from metaserver.services.changes import Actor
from qmq.protocol.names import dead_letter_subject

NAMED_MAX = 100
"""Failed or missing dead letters that an answer names; the rest is counted."""

To = Literal["group", "subject", "other"]
"""Who gets the copies: the consumer group, all groups of the subject, or those of another subject."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What the copy of one dead letter says instead of it."""

    properties: Mapping[str, str]
    """All properties but those of the protocol (`SYSTEM_PREFIX`), which the copy has as it is."""
    tags: Sequence[str]
    form: Mapping[str, str] = field(default_factory=dict)
    """Of the protocol's properties, those that describe the body (`edited_bodies.FORM_KEYS`)."""


SYSTEM_PREFIX = "qmq_"
"""Properties that clients and nodes write."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead letters: all (with `cursor` from where an answer left off), or those named, by broker group."""

    sequences: Mapping[str, Sequence[int]] | None = None
    cursor: str | None = None
    expected: int | None = None
    """Of all: how many a dry run of the same request found; with another number nothing is done."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A dead letter that could not be decided about, and why."""

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
    """Already replayed or deleted, and skipped without `force`."""
    under_way: int = 0
    """Another request is at it."""
    unknown: int = 0
    """Sent, but whether they were stored is unknown: the next request tries them again, under the same ids."""
    failed: int = 0
    failures: list[Failed] = field(default_factory=list)
    """The first of those that failed or are not there."""
    next: str | None = None
    """Cursor to continue from; None: the whole selection was processed."""
    unreachable: dict[str, str] = field(default_factory=dict)
    stopped: str = ""
    """Why no further batch was begun; "" when it was done or its limits were reached."""

    def fail(self, broker_group: str, sequence: int, why: str) -> None:
        """Count a failure, and name it as long as there is room."""
        self.failed += 1
        if len(self.failures) < NAMED_MAX:
            self.failures.append(Failed(broker_group, sequence, why))


@dataclass(frozen=True, slots=True)
class Order:
    """The work for the dead letters of one group."""

    subject: str
    group: str
    action: Literal["replay", "delete"]
    to: To
    force: bool
    actor: Actor
    reason: str = ""
    dry_run: bool = False
    other_subject: str = ""
    """The destination of a replay to another subject."""
    edit: Edit | None = None

    @property
    def name(self) -> str:
        """Of the dead-letter subject."""
        return dead_letter_subject(self.subject, self.group)
