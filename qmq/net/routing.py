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
    _failing: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Of groups without a success since: failures, and until when they are avoided."""

    def failed(self, group: str, now: float) -> None:
        """A request to the group failed."""
        failures = self._failing.get(group, (0, 0.0))[0] + 1
        self._failing[group] = failures, now + self.backoff.pause(failures)

    def succeeded(self, group: str) -> None:
        """A request to the group succeeded."""
        self._failing.pop(group, None)

    def is_open(self, group: str, now: float) -> bool:
        """Whether the group is avoided now."""
        return now < self.closes_at(group)

    def closes_at(self, group: str) -> float:
        """When the group may be tried again."""
        return self._failing.get(group, (0, 0.0))[1]


@dataclass(slots=True)
class RoundRobin:
    """Goes around the groups that may be tried."""

    breaker: Breaker
    _next_index: int = 0

    def choose(self, routes: Sequence[BrokerGroupRoute], now: float, avoid: str = "") -> BrokerGroupRoute | None:
        """The next group; `avoid` (where the batch failed last) only when there is no other; None when all are avoided."""
        fine = [route for route in routes if not self.breaker.is_open(route.name, now)]
        candidates = [route for route in fine if route.name != avoid] or fine
        if not candidates:
            return None
        self._next_index += 1
        return candidates[self._next_index % len(candidates)]
