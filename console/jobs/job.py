"""What a background job is: the modules of this package define one or two each."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings

from console.jobs.results import Part, Result
from metaserver.services.changes import Actor

TEXT_CHARS_MAX = 500
"""Of a result or an error; what is longer is cut off."""


@dataclass(frozen=True, slots=True)
class Job:
    """A background job. `run(context)` does one bounded piece of work and returns what it did."""

    name: str
    every_seconds: float
    limit_seconds: float
    text: str
    run: Callable[["Context"], Result]
    queue: str = settings.CELERY_TASK_DEFAULT_QUEUE
    """Where the words to run it go: a job that takes minutes has one of its own, and workers for it."""
    hold_seconds: float | None = None
    """How long a hold lasts unless the run calls `extend_hold`; a worker that died is replaced then. None: `limit_seconds`."""

    lasts_seconds: float = 0.0
    """How long a run lasts when all is well: it is late only after a number of these."""

    @property
    def success_seconds(self) -> float:
        """How often it should succeed."""
        return max(self.every_seconds, self.lasts_seconds)

    @property
    def hold(self) -> timedelta:
        """How long a hold lasts from when it is taken or extended."""
        return timedelta(seconds=self.limit_seconds if self.hold_seconds is None else self.hold_seconds)


@dataclass(slots=True)
class Context:
    """What a run is given: who acts, until when (monotonic seconds), and what the runs before remembered."""

    actor: Actor
    deadline: float
    state: dict[str, Any] = field(default_factory=dict)
    intervals: Mapping[str, float] = field(default_factory=dict)
    """How often each job should run, in seconds."""
    extend_hold: Callable[[], None] = lambda: None
    """Extends the hold. Runs that take longer than their job's hold call it often; it writes to the database only when due."""

    @property
    def seconds_left(self) -> float:
        """Until this run has to be over."""
        return max(0.0, self.deadline - time.monotonic())


class JobFailed(Exception):
    """A run failed for a known reason.

    Args:
        parts: what happened, and why.
        details: lines that help to find the cause, such as the end of a program's output.
    """

    def __init__(self, *parts: Part, details: str = "") -> None:
        super().__init__(": ".join(part.text for part in parts))
        self.parts, self.details = parts, details
