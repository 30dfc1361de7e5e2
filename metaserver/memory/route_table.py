"""The groups and routes of a metaserver, and which groups a client is sent. In memory, no I/O, time handed in."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from metaserver.choices import STATE_ON_WIRE, GroupKind, GroupState, OperatorState
from metaserver.domain import Route
from metaserver.memory.live_groups import LiveGroup
from qmq.clock import Clock
from qmq.protocol.codes import BrokerGroupState, ClientType
from qmq.protocol.commands import BrokerGroupRoute
from qmq_node.sorted_names import SortedNames

if TYPE_CHECKING:
    from random import Random

SUBJECT_GROUPS_MIN = 2
"""Broker groups of a new subject, as in QMQ: one may fail and the subject stays writable."""

USABLE: dict[int, set[BrokerGroupState]] = {
    ClientType.PRODUCER: {BrokerGroupState.READ_WRITE, BrokerGroupState.WRITE_ONLY},
    ClientType.DELAY_PRODUCER: {BrokerGroupState.READ_WRITE, BrokerGroupState.WRITE_ONLY},
    ClientType.CONSUMER: {BrokerGroupState.READ_WRITE, BrokerGroupState.READ_ONLY},
}
"""The states of a broker group that clients of a type can use."""


def assign(
    current: Sequence[str], live: Collection[str], rng: "Random", *, minimum: int = SUBJECT_GROUPS_MIN
) -> tuple[str, ...]:
    """The groups of a subject: those it has, in order, and live ones drawn at random up to `minimum`, if there are as many."""
    chosen = list(current)
    candidates = sorted(set(live) - set(chosen))
    missing = max(0, minimum - len(chosen))
    chosen += rng.sample(candidates, min(missing, len(candidates)))
    return tuple(chosen)


OFFICIAL_VERSION = "qmq"
"""The version of nodes of the official server, which report none."""
GROUPS_PER_ANSWER = 2
"""Groups of an answer that is not about a subject's own route."""
SUBJECTS_MAX = 1_000_000
"""Most subjects routed; a further one gets no route and a line in the log."""


class RouteTable:
    """The groups with their states, and the route of each subject."""

    def __init__(self, clock: Clock, rng: "Random", subject_groups_min: int = SUBJECT_GROUPS_MIN) -> None:
        self._clock = clock
        self._rng = rng
        self._subject_groups_min = subject_groups_min
        self.groups: dict[str, LiveGroup] = {}
        self.routes: dict[str, Route] = {}
        self.subjects = SortedNames()
        """Those that have a route."""
        self.moving: set[str] = set()
        """Subjects whose route has phases."""
        self._subjects_of: dict[str, dict[str, None]] = {}
        self._added: dict[str, tuple[str, ...]] = {}
        """By subject, the groups that this metaserver added to its route, as long as the database does not have them. Producers may
        have sent messages to them."""
        self._changed_routes: dict[str, None] = {}
        """Subjects whose route changed since `take_changed_routes`."""

    def put_route(self, route: Route) -> None:
        """Set a subject's route."""
        if not self._take_out(route.subject):
            self.subjects.add(route.subject)
        self.routes[route.subject] = route
        for group in route.broker_groups:
            self._subjects_of.setdefault(group, {})[route.subject] = None
        if route.phases:
            self.moving.add(route.subject)

    def remove_route(self, subject: str) -> None:
        """Remove a subject's route, if it has one."""
        self._added.pop(subject, None)
        if self._take_out(subject):
            self.subjects.remove(subject)

    def _take_out(self, subject: str) -> bool:
        """Remove a route, and keep the name of its subject; whether there was one."""
        known = self.routes.pop(subject, None)
        for group in known.broker_groups if known is not None else ():
            del self._subjects_of[group][subject]
        self.moving.discard(subject)
        self._changed_routes[subject] = None
        return known is not None

    def take_changed_routes(self) -> tuple[list[Route], list[str]]:
        """(routes that are new or changed since the last call, subjects whose route was removed)."""
        changed, self._changed_routes = self._changed_routes, {}
        return (
            [self.routes[subject] for subject in changed if subject in self.routes],
            [subject for subject in changed if subject not in self.routes],
        )

    def subjects_of(self, broker_group: str) -> Mapping[str, None]:
        """Subjects that a broker group serves, in the order in which they were routed there."""
        return self._subjects_of.get(broker_group, {})

    def route_of(self, subject: str) -> tuple[Route | None, bool]:
        """A real subject's route, created or extended if no group of it accepts messages; whether it has to be stored.

        Where there are only fewer groups than there should be, the rebalance adds one.
        """
        route = self.routes.get(subject)
        live = {
            name
            for name, group in self.groups.items()
            if group.group.kind is GroupKind.BROKER and group.state is GroupState.READ_WRITE
        }
        if route is not None and (live.intersection(route.writable) or not live):
            return route, False
        before = route or Route(subject, (), 0, self._clock.wall_ms())
        current = before.broker_groups
        minimum = self._subject_groups_min if route is None else len(current) + 1
        chosen = assign(current, live, self._rng, minimum=minimum)
        if chosen == current or (route is None and len(self.routes) >= SUBJECTS_MAX):
            return route, False
        fresh = replace(before, broker_groups=chosen, version=before.version + 1)
        self._added[subject] = (*self._added.get(subject, ()), *chosen[len(current) :])
        self.put_route(fresh)
        return fresh, True

    def add_unstored(self, route: Route) -> None:
        """Declare that this metaserver created a route, and that the database may have another one of the subject."""
        self._added[route.subject] = route.broker_groups

    def put_older(self, stored: Route) -> Route | None:
        """Use the route that the database has although a newer one is known here; return the route to store, if any.

        Groups of the newer one stay, as producers may have sent messages to them. A change that is to be stored anyway comes first.
        """
        known = self.routes[stored.subject]
        if stored.subject in self._added:
            return None
        self._added[stored.subject] = known.broker_groups
        route = self.with_unstored(stored)
        self.put_route(route)
        return route if route != stored else None

    def with_unstored(self, stored: Route) -> Route:
        """The route of a subject of which the database has `stored`: its next version, if groups that this metaserver added are
        missing in it."""
        missing = tuple(name for name in self._added.pop(stored.subject, ()) if name not in stored.broker_groups)
        if not missing:
            return stored
        self._added[stored.subject] = missing
        return replace(stored, broker_groups=(*stored.broker_groups, *missing), version=stored.version + 1)

    def usable(self, subject: str, client_type: int, keep: Collection[str] = ()) -> tuple[BrokerGroupRoute, ...]:
        """The groups of a real subject that a client of this type can use; `keep` as for `any_usable`."""
        if client_type == ClientType.DELAY_PRODUCER:
            return self.any_usable(client_type, keep)
        route = self.routes.get(subject)
        if route is None:
            return ()
        names = route.writable if client_type == ClientType.PRODUCER else route.broker_groups
        return self._usable(names, client_type)

    def any_usable(self, client_type: int, keep: Collection[str] = ()) -> tuple[BrokerGroupRoute, ...]:
        """A few groups that a client of this type can use, whatever the subject; of those in `keep`, the usable ones first."""
        found = self._usable(self._of_kind(client_type), client_type)
        if len(found) <= GROUPS_PER_ANSWER:
            return found
        kept = [group for group in found if group.name in keep][:GROUPS_PER_ANSWER]
        others = [group for group in found if group.name not in keep]
        return (*kept, *self._rng.sample(others, GROUPS_PER_ANSWER - len(kept)))

    def refusing(self, subject: str, client_type: int) -> tuple[BrokerGroupRoute, ...]:
        """The groups that answer a producer of a real subject and refuse its messages, such as those with a full disk.

        They are for a producer that no group can serve: it gets the node's reason instead of waiting. Their state is given as
        read_write, because clients send to no other. There are none while a group of the subject is offline, because it may accept
        messages when it returns, or has an official node, which official clients avoid permanently after a refusal (T2).
        """
        if client_type not in (ClientType.PRODUCER, ClientType.DELAY_PRODUCER):
            return ()
        route = self.routes.get(subject) if client_type == ClientType.PRODUCER else None
        names = self._of_kind(client_type) if route is None else route.writable
        now_ms, state = self._clock.wall_ms(), STATE_ON_WIRE[GroupState.READ_WRITE]
        found = []
        for live in (self.groups[name] for name in names if name in self.groups):
            if live.group.operator_state is not OperatorState.NORMAL:
                continue
            node = live.node
            if live.state is not GroupState.READ_ONLY or node is None or node.version == OFFICIAL_VERSION:
                return ()
            found.append(BrokerGroupRoute(live.group.name, node.address, now_ms, state))
        return tuple(found if route is not None else found[:GROUPS_PER_ANSWER])

    def _of_kind(self, client_type: int) -> list[str]:
        """The names of all groups that messages of this client type go to."""
        kind = GroupKind.DELAY if client_type == ClientType.DELAY_PRODUCER else GroupKind.BROKER
        return sorted(name for name, live in self.groups.items() if live.group.kind is kind)

    def _usable(self, names: Iterable[str], client_type: int) -> tuple[BrokerGroupRoute, ...]:
        now_ms = self._clock.wall_ms()
        found = []
        for name in names:
            live = self.groups.get(name)
            if live is None or live.node is None:
                continue
            state = STATE_ON_WIRE[live.state]
            if state in USABLE.get(client_type, ()):
                found.append(BrokerGroupRoute(name, live.node.address, now_ms, state))
        return tuple(found)
