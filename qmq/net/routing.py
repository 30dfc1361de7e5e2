"""Which broker group a batch goes to. Pure: routes, outcomes and times are arguments."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from qmq.net.timing import Backoff
from qmq.protocol.codes import BrokerGroupState
from qmq.protocol.commands import BrokerGroupRoute

WRITABLE = frozenset({BrokerGroupState.READ_WRITE, BrokerGroupState.WRITE_ONLY})
READABLE = frozenset({BrokerGroupState.READ_WRITE, BrokerGroupState.READ_ONLY})


def usable(routes: Sequence[BrokerGroupRoute], states: frozenset[BrokerGroupState]) -> list[BrokerGroupRoute]:
    """Routes of groups in one of the states, with a name and an address."""
    return [route for route in routes if route.name and route.master and route.state in states]


@dataclass(slots=True)
class Breaker:
    """Keeps failing broker groups out of the choice for a growing while; one success brings a group back."""

    backoff: Backoff
    _failures: dict[str, int] = field(default_factory=dict)
    _open_until: dict[str, float] = field(default_factory=dict)

    def failed(self, group: str, now: float) -> None:
        """A request to the group failed."""
        self._failures[group] = self._failures.get(group, 0) + 1
        self._open_until[group] = now + self.backoff.pause(self._failures[group])

    def succeeded(self, group: str) -> None:
        """A request to the group succeeded."""
        if group in self._failures:
            del self._failures[group], self._open_until[group]

    def is_open(self, group: str, now: float) -> bool:
        """Whether the group is avoided now."""
        return now < self._open_until.get(group, 0.0)

    def closes_at(self, group: str) -> float:
        """When the group may be tried again."""
        return self._open_until.get(group, 0.0)


@dataclass(slots=True)
class RoundRobin:
    """Goes around the groups that may be tried."""

    breaker: Breaker
    _next_index: int = 0

    def choose(self, routes: Sequence[BrokerGroupRoute], now: float, avoid: str = "") -> BrokerGroupRoute | None:
        """The next group; `avoid` (where the batch failed last) only when there is no other; None when all are avoided."""
        fine = [route for route in routes if not self.breaker.is_open(route.name, now)]
        others = [route for route in fine if route.name != avoid]
        candidates = others or fine
        if not candidates:
            return None
        self._next_index += 1
        return candidates[self._next_index % len(candidates)]
