"""Checks of times that requests name, in milliseconds since 1970."""

from delay_node.errors import BadQuery

TIME_MAX_MS = 1 << 48
"""Later times (year 10889) are rejected."""


def check_time(moment_ms: int, name: str, least: int = 0) -> None:
    """Raise BadQuery for a time out of range; `name` is what the error calls it."""
    if not least <= moment_ms <= TIME_MAX_MS:
        raise BadQuery(f"{name} is {moment_ms}; must be milliseconds since 1970, at most {TIME_MAX_MS}")


def check_range(from_ms: int, to_ms: int) -> int:
    """Return the begin of a range of time. Raises BadQuery."""
    check_time(from_ms, "from")
    check_time(to_ms, "to")
    if from_ms > to_ms:
        raise BadQuery(f"from {from_ms} is after to {to_ms}")
    return from_ms
