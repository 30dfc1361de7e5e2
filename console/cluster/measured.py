"""A value that may be unknown. Pure: shared by the live snapshot, the API and the metrics."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measured(Generic[T]):
    """`value` at `at_ms` (wall clock), or None with the reason why there is none. Never 0 for "not known"."""

    value: T | None
    reason: str | None
    at_ms: int
