"""Where messages flow: the busiest applications, subjects and consumer groups, and how much between them.

Rates of subjects and groups are those of the live snapshot, those of applications what brokers measured of their connections. What
is not among the busiest is folded into one entry of its kind.
"""

import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from console.cluster.clients import Sender, senders
from console.reports.lag_table import is_internal
from console.reports.overview import Numbers
from console.snapshot.lag_state import LagState

APPLICATIONS_MAX = 8
SUBJECTS_MAX = 12
GROUPS_MAX = 12
SHARED_SECONDS = 2.0
"""So long requests are answered with one picture."""

BEHIND = frozenset({LagState.GROWING.value, LagState.STOPPED.value, LagState.PAUSED.value})
"""States of groups that count by what is sent to their subjects, however little they acknowledge."""


class PlaceKind(StrEnum):
    """What stands at a place of the picture."""

    APPLICATION = "application"
    UNNAMED = "unnamed"
    """Clients that name no application."""
    DELAY_NODES = "delay_nodes"
    SUBJECT = "subject"
    GROUP = "group"
    OTHERS = "others"
    """`count` others of the column."""


@dataclass(slots=True)
class Place:
    """One box of the picture."""

    id: str
    kind: PlaceKind
    name: str = ""
    subject: str = ""
    """Of a group."""
    count: int = 1
    rate: float = 0.0
    lag: int | None = None
    """Of groups; None: not measured."""
    state: str | None = None
    """Of a group, a LagState."""


@dataclass(frozen=True, slots=True)
class Link:
    """Messages per second from one place to another."""

    sender: str
    receiver: str
    rate: float


@dataclass(frozen=True, slots=True)
class Flow:
    """The picture; each column by rate, the highest first, others last."""

    at: str | None
    reason: str | None
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Broker groups whose connections are not known."""
    applications: list[Place] = field(default_factory=list)
    subjects: list[Place] = field(default_factory=list)
    groups: list[Place] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


def flow(live: Numbers) -> Flow:
    """The flow as of the newest numbers; without any, the reason. Shared by requests for SHARED_SECONDS.

    Raises:
        CallTimeout: no node answered in time.
    """
    return _shared(live)


class _Shared:
    """The newest picture of a process. From any thread."""

    def __init__(self) -> None:
        self._newest: tuple[float, Flow] | None = None

    def __call__(self, live: Numbers) -> Flow:
        newest, now = self._newest, time.monotonic()
        if live.state is None:
            return Flow(live.at, live.reason)
        if newest is None or now - newest[0] >= SHARED_SECONDS:
            found = senders()
            newest = self._newest = now, drawn(live, found.senders, found.unreachable)
        return newest[1]


_shared = _Shared()


@dataclass(frozen=True, slots=True)
class _Group:
    """A consumer group with messages."""

    subject: str
    name: str
    rate: float
    """Acknowledged per second."""
    weight: float
    """What it counts by: what it acknowledges, or should if it is behind."""
    lag: int | None
    state: str


def drawn(live: Numbers, sent: Iterable[Sender], unreachable: Mapping[str, str]) -> Flow:
    """The picture of numbers and senders. Pure."""
    assert live.state is not None
    rates = {}
    for entry in live.state["subjects"].values():
        if (rate := _known(entry, "send_rate")) and not is_internal(entry["subject"]):
            rates[entry["subject"]] = rate
    groups, busy = [], dict(rates)
    for entry in live.state["groups"].values():
        subject = entry["subject"]
        rate = weight = _known(entry, "ack_rate")
        if entry["state"] in BEHIND:
            weight = max(rate, rates.get(subject, 0.0))
        if weight and not is_internal(subject):
            groups.append(_Group(subject, entry["group"], rate, weight, entry["lag"], entry["state"]))
            busy[subject] = max(busy.get(subject, 0.0), weight)
    result = Flow(live.at, live.reason, unreachable)
    subjects = _Column(result.subjects, "s", busy, SUBJECTS_MAX, lambda name: Place("", PlaceKind.SUBJECT, name))
    _add_groups(result, subjects, groups)
    _add_applications(result, subjects, [sender for sender in sent if sender.subject in busy])
    return result


class _Column:
    """Fills a column with the highest rates, and folds the rest into one place."""

    def __init__(
        self, column: list[Place], prefix: str, rates: Mapping[Any, float], most: int, make: Callable[[Any], Place]
    ) -> None:
        self._places: dict[Any, Place] = {}
        for number, key in enumerate(heapq.nsmallest(most, rates, key=lambda key: (-rates[key], key))):
            place = self._places[key] = make(key)
            place.id, place.rate = f"{prefix}{number}", rates[key]
            column.append(place)
        count = len(rates) - len(self._places)
        rest = sum(rates.values()) - sum(place.rate for place in column)
        self._others = Place(f"{prefix}-", PlaceKind.OTHERS, count=count, rate=max(0.0, rest))
        if count:
            column.append(self._others)

    def place(self, key: Any) -> Place:
        """Where one of the keys is."""
        return self._places.get(key, self._others)


def _add_groups(result: Flow, subjects: _Column, groups: list[_Group]) -> None:
    weights = {(group.subject, group.name): group.weight for group in groups}
    column = _Column(result.groups, "g", weights, GROUPS_MAX, lambda key: Place("", PlaceKind.GROUP, key[1], key[0]))
    flows: dict[tuple[str, str], float] = defaultdict(float)
    for place in result.groups:
        place.rate, place.lag = 0.0, 0
    for group in groups:
        place = column.place((group.subject, group.name))
        place.rate += group.rate
        place.lag = None if place.lag is None or group.lag is None else place.lag + group.lag
        if place.kind == PlaceKind.GROUP:
            place.state = group.state
        flows[subjects.place(group.subject).id, place.id] += group.rate
    result.links.extend(Link(*ends, rate) for ends, rate in flows.items())


def _add_applications(result: Flow, subjects: _Column, sent: list[Sender]) -> None:
    rates: dict[tuple[PlaceKind, str], float] = defaultdict(float)
    for sender in sent:
        rates[_sender(sender)] += sender.rate
    column = _Column(result.applications, "a", rates, APPLICATIONS_MAX, lambda key: Place("", *key))
    flows: dict[tuple[str, str], float] = defaultdict(float)
    for sender in sent:
        flows[column.place(_sender(sender)).id, subjects.place(sender.subject).id] += sender.rate
    result.links.extend(Link(*ends, rate) for ends, rate in flows.items())


def _sender(sender: Sender) -> tuple[PlaceKind, str]:
    if sender.is_delay_node:
        return PlaceKind.DELAY_NODES, ""
    return (PlaceKind.APPLICATION, sender.app) if sender.app else (PlaceKind.UNNAMED, "")


def _known(entry: Mapping[str, Any], name: str) -> float:
    """A number, as far as it is known."""
    value = entry.get(name)
    if value is None:
        value = (entry.get("at_least") or {}).get(name)
    return value or 0.0
