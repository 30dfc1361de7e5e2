"""When the shop's delayed messages are due: sixty days in a shop's rhythm, and some within minutes. Pure."""

from datetime import datetime, timedelta
from random import Random

DAYS = 60
SOON = timedelta(minutes=10)
BY_HOUR = (1, 1, 0, 0, 0, 1, 3, 8, 20, 26, 24, 18, 12, 14, 20, 22, 18, 14, 12, 16, 20, 14, 6, 2)
"""How many are due at each hour: mornings, afternoons, and after dinner."""
BY_WEEKDAY = (10, 9, 9, 9, 11, 6, 4)
"""Monday first."""
PAYDAY_FACTOR = 3
"""Invoices and subscriptions fall on the first and the fifteenth."""


def due_times(now: datetime, count: int, soon: int, random: Random) -> list[datetime]:
    """`count` times from `now` on, in order, of which `soon` lie within SOON."""
    start = now.replace(minute=0, second=0, microsecond=0)
    hours = [start + timedelta(hours=number) for number in range(1, DAYS * 24)]
    chosen = random.choices(hours, [_weight(hour, (hour - start).days) for hour in hours], k=count - soon)
    later = [hour + timedelta(seconds=random.randrange(3600)) for hour in chosen]
    at_once = [now + timedelta(seconds=random.uniform(20, SOON.total_seconds())) for _ in range(soon)]
    return sorted([*later, *at_once])


def _weight(hour: datetime, days: int) -> float:
    # Fewer are known of days that are far away.
    known = 1 - 0.7 * days / DAYS
    return BY_HOUR[hour.hour] * BY_WEEKDAY[hour.weekday()] * (PAYDAY_FACTOR if hour.day in (1, 15) else 1) * known
