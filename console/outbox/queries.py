"""The read side of registered databases."""

from datetime import datetime

from console.outbox.models import OutboxDatabase
from console.outbox.numbers import Numbers


def enabled_numbers(now: datetime) -> list[tuple[OutboxDatabase, Numbers]]:
    """Every enabled database with what is known of it, by name."""
    return [(row, Numbers.of(row, now)) for row in OutboxDatabase.objects.filter(is_enabled=True)]
