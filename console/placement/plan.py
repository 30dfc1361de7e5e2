"""Plans rebalances and the steps of moves. Pure: routes, groups and loads in; routes out.

Rules: a subject is served by at least `minimum` groups that accept messages, if that many are online; new groups take a share,
until no group has more than its share of the subjects plus a tolerance; a draining group keeps none.

A subject moves in steps (`Phase`): consumers connect to the new group before producers do, the old one drains only when the new
one is writable, and it leaves when it is empty. Moving subjects are not planned again.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from metaserver.choices import Phase
from metaserver.domain import Route

TOLERANCE = 0.2
"""Share by which a group's load may exceed its target before subjects move away from it."""


@dataclass(frozen=True, slots=True)
class Move:
    """A planned route, over the version that it carries, and the reason."""

    route: Route
    reason: str


def advance(route: Route, *, ready: Collection[str], empty: Collection[str]) -> Move | None:
    """The next step of a route that moves; None when it has to wait.

    Args:
        ready: joining groups where every consumer group can read.
        empty: draining groups that refuse what is sent and hold nothing unread.
    """
    phases = dict(route.phases)
    opened = [name for name, phase in phases.items() if phase is Phase.JOINING and name in ready]
    if opened:
        for name in opened:
            del phases[name]
        return Move(replace(route, phases=phases), f"{', '.join(opened)} now accepts writes")
    is_joining = Phase.JOINING in phases.values()
    stays = [name for name in route.broker_groups if phases.get(name) is None]
    leaving = [name for name, phase in phases.items() if phase is Phase.LEAVING]
    if leaving and not is_joining and stays:
        for name in leaving:
            phases[name] = Phase.DRAINING
        return Move(replace(route, phases=phases), f"{', '.join(leaving)} accepts no new messages from now on")
    gone = [name for name, phase in phases.items() if phase is Phase.DRAINING and name in empty]
    if gone and stays:
        groups = tuple(name for name in route.broker_groups if name not in gone)
        left = {name: phase for name, phase in phases.items() if name not in gone}
        return Move(replace(route, broker_groups=groups, phases=left), f"{', '.join(gone)} is empty")
    return None


def plan(
    routes: Collection[Route], taking: Collection[str], leaving: Collection[str], *, minimum: int, most: int
) -> list[Move]:
    """At most `most` moves, the most urgent first.

    Args:
        taking: broker groups that live and take messages.
        leaving: broker groups that an operator drains.
        minimum: groups a subject should be written to.
    """
    taking_set, leaving_set = set(taking), set(leaving)
    if not taking_set:
        return []
    load = dict.fromkeys(taking_set, 0)
    for route in routes:
        for name in route.staying:
            if name in load:
                load[name] += 1
    by_name = sorted((route for route in routes if not route.phases), key=lambda route: route.subject)
    moves: list[Move] = []
    moved: set[str] = set()

    def lightest(exclude: Collection[str]) -> str | None:
        candidates = sorted((load[name], name) for name in taking_set if name not in exclude)
        return candidates[0][1] if candidates else None

    def add_move(route: Route, joining: list[str], leaving: list[str], reason: str) -> None:
        for name in joining:
            load[name] += 1
        for name in leaving:
            if name in load:
                load[name] -= 1
        phases = dict.fromkeys(joining, Phase.JOINING) | dict.fromkeys(leaving, Phase.LEAVING)
        moved.add(route.subject)
        moves.append(Move(replace(route, broker_groups=(*route.broker_groups, *joining), phases=phases), reason))

    for route in by_name:
        if len(moves) >= most:
            return moves
        drained = [name for name in route.broker_groups if name in leaving_set]
        taken = [name for name in route.broker_groups if name in taking_set]
        joining: list[str] = []
        reasons = [f"{name} drains" for name in drained]
        while len(taken) < min(minimum, len(taking_set)):
            fresh = lightest((*route.broker_groups, *joining))
            if fresh is None:
                break
            joining.append(fresh)
            reasons.append(f"{fresh} joins: {len(taken)} of {minimum} groups accepted messages")
            taken.append(fresh)
        # Where no broker group could take over the sends, the subject stays where it is.
        if taken and reasons:
            add_move(route, joining, drained, "; ".join(reasons))

    target = sum(load.values()) / len(taking_set)
    while len(moves) < most:
        heaviest = max(sorted(load), key=lambda name: load[name])
        found = None
        if load[heaviest] > target * (1 + TOLERANCE):
            for route in by_name:
                if route.subject in moved or heaviest not in route.broker_groups:
                    continue
                fresh = lightest(route.broker_groups)
                # A move that would only swap who has too much is none.
                if fresh is not None and load[fresh] + 1 < load[heaviest]:
                    found = (route, fresh)
                    break
        if found is None:
            return moves
        route, name = found
        why = f"{heaviest} serves {load[heaviest]} of load, its share is {target:.0f}; {name} serves {load[name]}"
        add_move(route, [name], [heaviest], why)
    return moves
