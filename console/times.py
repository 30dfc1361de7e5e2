"""Times as the API writes them. Pure."""

from datetime import UTC, datetime


def rfc3339(at: int | datetime) -> str:
    """A time, or milliseconds since the epoch, as an RFC 3339 time in UTC."""
    moment = at if isinstance(at, datetime) else datetime.fromtimestamp(at / 1000, UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
