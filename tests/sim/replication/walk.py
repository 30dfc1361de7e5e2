"""Walks over the states of one broker group: all of them, or one drawn from a seed."""

import random
from collections import deque
from dataclasses import dataclass, replace

from qmq_node.replication.rules.following import TruncationRejected
from qmq_node.replication.rules.master import Master, SessionRejected
from qmq_node.replication.rules.membership import Membership
from qmq_node.replication.rules.slave import CommitsRejected, Slave
from tests.sim.replication.group import (
    Bounds,
    Broken,
    Group,
    Impossible,
    Node,
    Rules,
    Thunk,
    begin,
    check_step,
    sessions_of,
)

STATES_MAX = 3_000_000
"""A walk that meets more states has lost its bounds."""
WEIGHTS = (0.05, 0.3, 1.0, 1.0, 3.0)
"""How often a kind of step is taken in one walk, compared with others."""
_NO_DIGITS = str.maketrans("", "", "0123456789")


@dataclass(frozen=True)
class Found:
    """How a walk ended."""

    states: int
    broken: str = ""
    """What must not be, "" if nothing was found."""
    trace: tuple[str, ...] = ()
    """The steps that lead there."""
    given_up: int = 0
    """How many acknowledged values an operator gave up."""

    def __str__(self) -> str:
        if not self.broken:
            return f"{self.states} states, nothing found"
        lines = "\n".join(f"{number:3} {line}" for number, line in enumerate(self.trace, 1))
        return f"{self.broken}\n{lines}"


def take(rules: Rules, group: Group, thunk: Thunk) -> Group | None:
    """The state after a step; None if the step can't happen. Raises Broken."""
    try:
        after = thunk()
    except Impossible:
        return None
    except SessionRejected as error:
        if error.is_alarm:
            raise Broken(f"alarm: {error}") from error
        return None
    except (CommitsRejected, TruncationRejected) as error:
        raise Broken(f"alarm: {error}") from error
    check_step(group, after)
    rules.check(after)
    return after


def walk_all(bounds: Bounds, states_max: int = STATES_MAX) -> Found:
    """Visit every state, those that fewest steps lead to first; ends with the first broken one.

    Raises RuntimeError for more than `states_max` states.
    """
    rules, first = Rules(bounds), begin(bounds)
    parents: dict[Group, tuple[Group, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        group = queue.popleft()
        line = ""
        try:
            for line, thunk in rules.steps(group):
                after = take(rules, group, thunk)
                if after is None:
                    continue
                after = canonical(after)
                if after not in parents:
                    parents[after] = group, line
                    queue.append(after)
        except Broken as broken:
            return Found(len(parents), str(broken), (*_trace(parents, group), line))
        if len(parents) > states_max:
            raise RuntimeError(f"more than {states_max} states")
    return Found(len(parents))


def canonical(group: Group) -> Group:
    """One state for all that differ only in what nothing can notice: so the states are few, and a walk ends.

    Versions and sessions are numbered anew, in their order. What is on its way and can't have an effect any more is left out.
    """
    membership, memberships = (
        group.membership,
        [found for found in (group.membership, group.older_membership, group.newest) if found is not None],
    )
    places = {found.place for found in memberships}
    requests = frozenset(request for request in group.requests if (request.epoch, request.in_sync_version) in places)
    leading = {(number, node.state.epoch) for number, node in enumerate(group.nodes) if isinstance(node.role, Master)}
    confirmations = tuple(item for item in group.confirmations if (item[0][1], item[0][2]) in leading)
    group = group._replace(requests=requests, confirmations=confirmations)
    versions = {*(found.version for found in memberships), *(request.in_sync_version for request in requests)}
    versions |= {node.role.membership.version for node in group.nodes if isinstance(node.role, Master)}
    rank = {version: number for number, version in enumerate(sorted(versions), 1)}
    session = {number: new for new, number in enumerate(sorted(set(sessions_of(group))), 1)}
    if all(old == new for old, new in (*rank.items(), *session.items())):
        return group

    def renumbered(found: Membership | None) -> Membership | None:
        return None if found is None else replace(found, version=rank[found.version])

    nodes: list[Node] = []
    for node in group.nodes:
        role = node.role
        if isinstance(role, Master):
            known = replace(role.membership, version=rank[role.membership.version])
            sessions = tuple(replace(found, number=session[found.number]) for found in role.sessions)
            nodes.append(node._replace(role=replace(role, membership=known, sessions=sessions)))
        elif isinstance(role, Slave):
            nodes.append(node._replace(role=replace(role, session=session[role.session])))
        else:
            nodes.append(node)
    return group._replace(
        membership=replace(membership, version=rank[membership.version]),
        nodes=tuple(nodes),
        confirmations=tuple(sorted(((*key[:3], session[key[3]]), sent) for key, sent in confirmations)),
        requests=frozenset(replace(request, in_sync_version=rank[request.in_sync_version]) for request in requests),
        older_membership=renumbered(group.older_membership),
        newest=renumbered(group.newest),
    )


def _trace(parents: dict[Group, tuple[Group, str] | None], group: Group) -> tuple[str, ...]:
    lines: list[str] = []
    while (parent := parents[group]) is not None:
        group, line = parent
        lines.append(line)
    return tuple(reversed(lines))


def walk_one(seed: int, bounds: Bounds, steps_max: int = 300) -> Found:
    """Take steps that are drawn from a seed, until nothing can happen or `steps_max` were taken.

    Each seed makes some kinds of step frequent and others rare, so that the walks differ more than steps of equal chance.
    """
    rng, rules, group = random.Random(seed), Rules(bounds), begin(bounds)
    lines: list[str] = []
    given_up = 0
    weights: dict[str, float] = {}
    """Of kinds, and of lines, which are the same in many states."""

    def weight(line: str) -> float:
        found = weights.get(line)
        if found is None:
            kind = line.translate(_NO_DIGITS)
            if kind not in weights:
                weights[kind] = rng.choice(WEIGHTS)
            found = weights[line] = weights[kind]
        return found

    while len(lines) < steps_max:
        try:
            possible = list(rules.steps(group))
        except Broken as broken:
            return Found(len(lines), str(broken), tuple(lines))
        after = None
        while possible and after is None:
            chosen = rng.choices(range(len(possible)), [weight(line) for line, _ in possible])[0]
            line, thunk = possible.pop(chosen)
            try:
                after = take(rules, group, thunk)
            except Broken as broken:
                return Found(len(lines), str(broken), (*lines, line))
        if after is None:
            break
        lines.append(line)
        given_up += len(group.acknowledged - after.acknowledged)
        group = after
    return Found(len(lines), given_up=given_up)
