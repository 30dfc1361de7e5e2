"""Which broker group a batch goes to. Pure: routes, outcomes and times are arguments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from qmq.net.timing import Backoff
from qmq.protocol.codes import BrokerGroupState
from qmq.protocol.commands import BrokerGroupRoute

WRITABLE = frozenset({BrokerGroupState.READ_WRITE, BrokerGroupState.WRITE_ONLY})
READABLE = frozenset({BrokerGroupState.READ_WRITE, BrokerGroupState.READ_ONLY})


def former_masters(known: Mapping[str, str], routes: Iterable[BrokerGroupRoute]) -> list[str]:
    """Return the known addresses, by name of a broker group, of the groups whose routes name another master."""
    return [known[r.name] for r in routes if r.master and known.get(r.name, r.master) != r.master]


def usable(routes: Sequence[BrokerGroupRoute], states: frozenset[BrokerGroupState]) -> list[BrokerGroupRoute]:
    """Routes of groups in one of the states, with a name and an address."""
    return [route for route in routes if route.name and route.master and route.state in states]


ADDRESSES_MAX = 1_000
"""Failing masters of which a breaker remembers the failures; it forgets the oldest."""


@dataclass(slots=True)
class Breaker:
    """Keeps broker groups whose masters fail out of the choice for a growing while; one success brings a group back.

    Failures belong to the address of a master, so a group can be chosen as soon as its route names another master.
    """

    backoff: Backoff
    _failing: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Of addresses without a success since: failures, and until when they are avoided."""

    def failed(self, master: str, now: float) -> None:
        """A request to the master failed."""
        failures = self._failing.pop(master, (0, 0.0))[0] + 1
        if len(self._failing) >= ADDRESSES_MAX:
            del self._failing[next(iter(self._failing))]
        self._failing[master] = failures, now + self.backoff.pause(failures)

    def succeeded(self, master: str) -> None:
        """A request to the master succeeded."""
        self._failing.pop(master, None)

    def forget(self, master: str) -> None:
        """The node is not the master of its broker group any more."""
        self._failing.pop(master, None)

    def is_open(self, master: str, now: float) -> bool:
        """Whether the master is avoided now."""
        return now < self.closes_at(master)

    def closes_at(self, master: str) -> float:
        """When the master may be tried again."""
        return self._failing.get(master, (0, 0.0))[1]


@dataclass(slots=True)
class RoundRobin:
    """Goes around the groups that may be tried."""

    breaker: Breaker
    _next_index: int = 0

    def choose(self, routes: Sequence[BrokerGroupRoute], now: float, avoid: str = "") -> BrokerGroupRoute | None:
        """The next group; `avoid` (where the batch failed last) only when there is no other; None when all are avoided."""
        fine = [route for route in routes if not self.breaker.is_open(route.master, now)]
        candidates = [route for route in fine if route.name != avoid] or fine
        if not candidates:
            return None
        self._next_index += 1
        return candidates[self._next_index % len(candidates)]
