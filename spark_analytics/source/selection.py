"""What of a table is wanted: names, times. Pure. Options say it; planning and readers ask it.

Times are microseconds since the epoch, as Spark has them.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from qmq.errors import SettingError

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

TIME_MARGIN_MS = 10 * 60 * 1000
"""How far nodes are asked beyond a time range: they look a place up as if store times only rose, and a wall clock that was set
back is off by no more than this. Rows are then compared one by one."""


@dataclass(frozen=True, slots=True)
class Span:
    """Whole numbers [begin, end)."""

    begin: int = LOWEST
    end: int = HIGHEST

    def __and__(self, other: "Span") -> "Span":
        return Span(max(self.begin, other.begin), min(self.end, other.end))

    @property
    def is_bounded(self) -> bool:
        return self.begin > LOWEST or self.end < HIGHEST

    @property
    def is_empty(self) -> bool:
        return self.begin >= self.end


@dataclass(frozen=True, slots=True)
class Names:
    """Names that match one of the patterns (`*`: anything, `?`: one character); without patterns, any name."""

    patterns: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        return self.is_any or any(_pattern(pattern).fullmatch(name) for pattern in self.patterns)

    @property
    def is_any(self) -> bool:
        """Whether every name is wanted."""
        return not self.patterns


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is wanted of a table."""

    broker_groups: Names = field(default_factory=Names)
    subjects: Names = field(default_factory=Names)
    groups: Names = field(default_factory=Names)
    times: Span = field(default_factory=Span)

    def time_bounds_ms(self) -> tuple[int, int]:
        """The times to ask nodes for, [from, to) in milliseconds, with the margin; -1 for no bound."""
        from_us, to_us = self.times.begin, self.times.end
        from_ms = -1 if from_us == LOWEST else max(0, from_us // 1000 - TIME_MARGIN_MS)
        to_ms = -1 if to_us == HIGHEST else max(0, -(-to_us // 1000) + TIME_MARGIN_MS)
        return from_ms, to_ms


def microseconds(moment: datetime) -> int:
    """An aware time as microseconds since the epoch, exactly."""
    return (moment - EPOCH) // _MICROSECOND


def parse_time(text: str, option: str) -> int:
    """An ISO time, in microseconds since the epoch; without a zone it is UTC.

    Raises:
        SettingError: it is none.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingError(f"{option} is {text[:60]!r}; must be an ISO time, such as 2026-03-01T12:00:00Z") from error
    return microseconds(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))


def parse_names(text: str) -> Names:
    """A comma list of names and patterns; empty: any."""
    return Names(tuple(part for part in (piece.strip() for piece in text.split(",")) if part))
