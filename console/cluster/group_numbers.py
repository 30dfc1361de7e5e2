"""The numbers of a consumer group that nodes report, and the one that those of several broker groups make. Pure.

The list of groups, the page of a group, the live feed and the schemas of the API follow from this table. A number that one broker
group does not know is unknown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNumber:
    """What a number of a consumer group is across broker groups."""

    combine: Callable[[str, Reports], Any]
    """Returns it from its name and what the broker groups report."""
    is_whole: bool = True
    """Whether it is an integer."""
    is_listed: bool = True
    """Whether lists of groups have it. The page of a group and the feeds have each number."""
    help: str = ""
    """For the OpenAPI file."""


GROUP_NUMBERS: Mapping[str, GroupNumber] = {
    "backlog": GroupNumber(combine=total, help="stored, not pulled"),
    "in_flight": GroupNumber(combine=total, help="pulled, not acked"),
    "lag": GroupNumber(combine=total),
    "time_lag_seconds": GroupNumber(combine=longest, is_whole=False),
    "pull_rate": GroupNumber(combine=partial(total, digits=2), is_whole=False),
    "ack_rate": GroupNumber(combine=partial(total, digits=2), is_whole=False),
    "consumers_online": GroupNumber(combine=lambda _, reports: consumers("online", reports)),
    # That of the retry subject is added when all groups are summed.
    "retry_lag": GroupNumber(combine=lambda *_: 0, help="messages waiting for another attempt"),
    "retried": GroupNumber(combine=total, is_listed=False),
}
"""By the name that the API and feeds have for it. The API shows each as `at_least` while broker groups are unreachable."""

GROUP_SUMS: Mapping[str, Callable[[Reports], Any]] = {
    name: partial(number.combine, name) for name, number in GROUP_NUMBERS.items()
}
"""By name, what makes the number of a group of what broker groups report."""
