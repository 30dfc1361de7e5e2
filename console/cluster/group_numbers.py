"""The numbers of a consumer group that nodes report, and the one that those of several broker groups make. Pure.

The list of groups, the page of a group and the live feed sum by this table. A number that one broker group does not know is
unknown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

Reports = Sequence[Mapping[str, Any]]
"""What the masters of broker groups report of one thing, such as a consumer group, in `/stats`."""


def total(name: str, reports: Reports, digits: int | None = None) -> Any:
    """The sum; None when one is unknown."""
    values = [report[name] for report in reports]
    if any(value is None for value in values):
        return None
    found = sum(values)
    return found if digits is None else round(found, digits)


def longest(name: str, reports: Reports) -> Any:
    """The largest, with one decimal; None when one is unknown."""
    values = [report[name] for report in reports]
    return None if any(value is None for value in values) else round(max(values, default=0.0), 1)


def consumers(flag: str, reports: Iterable[Mapping[str, Any]]) -> int:
    """The number of consumers for which a flag is set. One that reads from several broker groups is one consumer."""
    return len({one["consumer_id"] for report in reports for one in report["consumers"] if one[flag]})


GROUP_NUMBERS: Mapping[str, Callable[[Reports], Any]] = {
    "backlog": partial(total, "backlog"),
    "in_flight": partial(total, "in_flight"),
    "lag": partial(total, "lag"),
    "time_lag_seconds": partial(longest, "time_lag_seconds"),
    "pull_rate": partial(total, "pull_rate", digits=2),
    "ack_rate": partial(total, "ack_rate", digits=2),
    "consumers_online": partial(consumers, "online"),
    "retry_lag": lambda reports: 0,  # that of the retry subject is added when all groups are summed
    "retried": partial(total, "retried"),
}
"""By the name that the API and feeds have for it. The API shows each as `at_least` while broker groups are unreachable."""
