"""Values of the command line: numbers, times, durations, properties."""

import argparse
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TypeVar

from qmq.errors import SettingError

T = TypeVar("T")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|)")


def _number(parse: Callable[[str], T], what: str, is_legal: Callable[[T], bool]) -> Callable[[str], T]:
    def number(text: str) -> T:
        with suppress(ValueError):
            value = parse(text)
            if is_legal(value):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")

    return number


whole = _number(int, "a whole number of at least 1", lambda value: value >= 1)
seconds = _number(float, "a number of seconds", lambda value: 0 <= value < inf)
rate = _number(float, "a number above 0", lambda value: 0 < value < inf)


def delay_of(text: str) -> timedelta:
    """A duration: 500ms, 30s, 5m, 2h, 3d, or parts of it in a row (1h30m); a bare number counts seconds."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 500ms, 30s, 5m, 2h, 3d or 1h30m")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is too long") from None


def moment_of(text: str) -> datetime:
    """An ISO time with its zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an ISO time such as 2026-12-24T18:00:00Z") from None
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone: add Z or an offset")
    return moment


def pairs_of(texts: list[str], flag: str) -> dict[str, str]:
    """KEY=VALUE arguments as a map. Raises SettingError for one of another form."""
    found: dict[str, str] = {}
    for pair in texts:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise SettingError(f"{flag} {pair}: must be KEY=VALUE")
        found[key] = value
    return found


def iso(moment: datetime) -> str:
    """A time in ISO 8601, in UTC, with milliseconds."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
