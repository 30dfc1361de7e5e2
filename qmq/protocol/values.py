"""Numbers and times that others wrote, read within bounds. Pure.

A property may contain any text, and a time any 64 bits: nothing here raises, whatever a message contains.
"""

from datetime import UTC, datetime, timedelta
from typing import TypeVar

D = TypeVar("D", int, None)

INT_MAX = 2**31 - 1
"""The largest number of a property that Java programs read as an int."""
LONG_MAX = 2**63 - 1
TIME_MS_MIN, TIME_MS_MAX = -62_135_596_800_000, 253_402_300_799_999
"""The calendar of Python: the years 1 to 9999, in milliseconds since the epoch."""

_DIGITS_MAX = 19
_EPOCH = datetime.fromtimestamp(0, UTC)


def whole_number(text: str | None, default: D, maximum: int = INT_MAX) -> int | D:
    """The number 0 to `maximum` that a property contains in ASCII digits; `default` for any other text, and without one."""
    if not text or len(text) > _DIGITS_MAX or not text.isascii() or not text.isdigit():
        return default
    number = int(text)
    return number if number <= maximum else default


def moment(milliseconds: int) -> datetime:
    """A time of the wire as a datetime in UTC; one outside of the calendar as its nearest end."""
    return _EPOCH + timedelta(milliseconds=min(max(milliseconds, TIME_MS_MIN), TIME_MS_MAX))
