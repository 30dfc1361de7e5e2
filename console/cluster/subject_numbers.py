"""The numbers of a subject, and the one that those of several broker groups make. Pure."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from console.cluster.group_numbers import Reports, total


def lags(reports: Reports) -> Mapping[str, Any]:
    """The lag of each consumer group across broker groups; None: unknown."""
    by_group: dict[str, list[Mapping[str, Any]]] = {}
    for group in groups_of(reports):
        by_group.setdefault(group["group"], []).append(group)
    return {name: total("lag", parts) for name, parts in by_group.items()}


def groups_of(reports: Reports) -> Iterator[Mapping[str, Any]]:
    """What broker groups report of a subject's consumer groups."""
    return (group for report in reports for group in report["groups"])


def highest_lag(reports: Reports) -> Any:
    """The lag of the consumer group that is furthest behind; None: there is no group, or the lag of one is unknown."""
    found = lags(reports).values()
    return None if None in found else max(found, default=None)


def highest_lag_group(reports: Reports) -> str | None:
    """The consumer group with the highest known lag; None: there is none."""
    known = {name: lag for name, lag in lags(reports).items() if lag is not None}
    return max(sorted(known), key=known.__getitem__, default=None)


SUBJECT_NUMBERS: Mapping[str, Callable[[Reports], Any]] = {
    "stored_messages": lambda reports: total("end_sequence", reports) - total("begin_sequence", reports),
    "sent_messages": partial(total, "end_sequence"),
    "send_rate": partial(total, "send_rate", digits=2),
    "send_bytes_rate": partial(total, "send_bytes_rate", digits=0),
}
"""By name, what makes a number of what broker groups report of the subject."""
SUBJECT_FIELDS: Mapping[str, Callable[[Reports], Any]] = {
    **SUBJECT_NUMBERS,
    "highest_lag": highest_lag,
    "highest_lag_group": highest_lag_group,
}
"""The same with the consumer group that is furthest behind: null for a subject without groups, for which there is no `reason`."""
