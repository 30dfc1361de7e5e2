"""Rebalancing: plans moves, and takes the next step of each move when the nodes are ready for it.

The conditions of a step are requested from the nodes each time, never remembered: a joining broker group becomes writable only
when every consumer group has a position on it; a draining one leaves only when it rejects sends and all its messages were
acknowledged, in two consecutive checks.
"""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from console.cluster import limits
from console.cluster.admin import node_admin
from console.jobs.job import TEXT_CHARS_MAX, Context, Job
from console.jobs.results import Part, Result, counting, result
from console.models import BackgroundJob
from console.placement.plan import advance, plan
from console.placement.route_cache import ROUTES
from metaserver import queries
from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.domain import Route
from metaserver.errors import NotFound, Stale
from metaserver.services import routes
from qmq.errors import QmqError
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import EnsureGroupRequest
from qmq.protocol.names import retry_subject
from qmq.words import counted

logger = logging.getLogger("qmq.jobs.rebalance")

GROUPS_PER_SUBJECT_MIN = 2
MOVING_MAX = 50
"""Subjects that move at a time."""
JOIN_SECONDS = 5.0
"""Time in which consumers connect to a joining group before producers do."""
NODES_AT_A_TIME = 10
REASONS_MAX = 10
"""What a subject's move waits for, that is kept of it."""
REASONS_SHOWN = 3
"""Of all moves, in the result."""
WAITING_MAX = 500
"""Subjects whose reasons are kept; operators may move more by hand than MOVING_MAX."""


def rebalance(context: Context) -> Result:
    """Plan and start moves."""
    found = ROUTES.routes()
    moving = sum(bool(route.phases) for route in found)
    if moving >= MOVING_MAX:
        return result(counting("rebalance.maximum", moving, f"{counted(moving, 'subject')} moving, the maximum"))
    groups = [group for group in queries.broker_groups() if group.kind == GroupKind.BROKER]
    taking = [
        group.name
        for group in groups
        if group.state == GroupState.READ_WRITE and group.operator_state == OperatorState.NORMAL
    ]
    leaving = [group.name for group in groups if group.operator_state == OperatorState.DRAINING]
    leaving += sorted(queries.lost_groups())
    moves = plan(found, taking, leaving, minimum=GROUPS_PER_SUBJECT_MIN, most=MOVING_MAX - moving)
    begun = 0
    for move in moves:
        try:
            routes.step(move.route, actor=context.actor, reason=move.reason, action="route.rebalance")
            begun += 1
        except (Stale, NotFound) as error:
            logger.info("%s", error)
    if not begun and not moving:
        return result(Part("rebalance.placed", "all subjects are placed"))
    return result(
        counting("rebalance.started", begun, f"{counted(begun, 'move')} started"),
        counting("rebalance.in_progress", moving, f"{moving} in progress"),
    )


def waiting_for(subject: str) -> list[dict[str, Any]]:
    """Return what the move of a subject waited for at the last check, as `waiting_on` does; empty: nothing, or not checked yet."""
    return [{"subject": subject, **reason} for reason in _waiting().get(subject, [])]


def waiting_on(broker_group: str) -> list[dict[str, Any]]:
    """Return what moves waited for on a broker group at the last check: `subject`, `text`, `code` and `values`."""
    return [
        {"subject": subject, **reason}
        for subject, reasons in sorted(_waiting().items())
        for reason in reasons
        if reason["values"].get("broker_group") == broker_group
    ]


def _waiting() -> dict[str, list[dict[str, Any]]]:
    state = BackgroundJob.objects.filter(name=MOVES.name).values_list("state", flat=True).first() or {}
    found: dict[str, list[dict[str, Any]]] = state.get("waiting", {})
    return found


def take_steps(context: Context) -> Result:
    """Take the next step of each move that is ready for it."""
    moving = queries.route_snapshots(moving_only=True)
    if not moving:
        context.state.clear()
        return result(Part("moves.none", "no moves in progress"))
    known = queries.groups_by_subject(route.subject for route in moving)
    places = {name: Place(name, row.address, row.admin_address) for name, row in queries.masters().items()}
    lost = queries.lost_groups()
    joined_before = timezone.now() - timedelta(seconds=JOIN_SECONDS)
    old_enough = queries.moves_unchanged_since(joined_before)
    budget = min(context.seconds_left, 60.0) - 2.0
    found = asyncio.run(_look(moving, known, places, old_enough, lost, budget))
    once = set(context.state.get("empty_once", []))
    stepped = 0
    waiting: dict[str, list[Part]] = {}
    empty_now: list[str] = []
    for route, sight in zip(moving, found, strict=True):
        empty = set()
        for name in sight.empty:
            key = f"{route.subject}\n{route.version}\n{name}"
            empty_now.append(key)
            if key in once:
                empty.add(name)
        move = advance(route, ready=sight.ready, empty=empty)
        if move is None:
            if len(waiting) < WAITING_MAX:
                waiting[route.subject] = list(sight.why[:REASONS_MAX])
            continue
        try:
            routes.step(move.route, actor=context.actor, reason=move.reason)
            stepped += 1
        except (Stale, NotFound) as error:
            logger.info("%s", error)
    context.state["empty_once"] = empty_now
    context.state["waiting"] = {
        subject: [{"text": reason.text, **reason.as_json()} for reason in why] for subject, why in waiting.items()
    }
    reasons = [reason for why in waiting.values() for reason in why]
    return result(
        counting("moves.moving", len(moving), f"{counted(len(moving), 'subject')} moving"),
        counting("moves.steps", stepped, f"{counted(stepped, 'step')} completed"),
        waits=reasons[:REASONS_SHOWN],
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a broker group's master is."""

    name: str
    address: str
    admin_address: str


@dataclass(frozen=True, slots=True)
class Sight:
    """What the nodes say of a subject that moves."""

    ready: tuple[str, ...]
    empty: tuple[str, ...]
    why: tuple[Part, ...]
    """What is waited for."""


async def _look(
    moving: list[Route],
    known: dict[str, list[str]],
    places: dict[str, Place],
    old_enough: set[str],
    lost: set[str],
    seconds: float,
) -> list[Sight]:
    """Ask the nodes about every subject, a few at a time."""
    gate = asyncio.Semaphore(NODES_AT_A_TIME)

    async def one(route: Route) -> Sight:
        async with gate:
            return await _look_at(route, known.get(route.subject, []), places, route.subject in old_enough, lost)

    # Those that take too long wait for the next run; they don't take the others' answers with them.
    tasks = [asyncio.ensure_future(one(route)) for route in moving]
    _, late = await asyncio.wait(tasks, timeout=max(1.0, seconds))
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return [
        Sight((), (), (_no_response(route.subject),)) if task in late else task.result()
        for route, task in zip(moving, tasks, strict=True)
    ]


def _no_response(subject: str) -> Part:
    return Part("waiting.no_response", f"{subject}: no response in time", {"subject": subject})


async def _look_at(
    route: Route, known: list[str], places: dict[str, Place], is_old_enough: bool, lost: Collection[str] = ()
) -> Sight:
    ready, empty, why = [], [], []
    for name, phase in route.phases.items():
        if name in lost:
            # An operator accepted the loss of what it had.
            empty.append(name)
            continue
        where = {"subject": route.subject, "broker_group": name}
        prefix = f"{route.subject} on {name}: "
        place = places.get(name)
        if place is None:
            why.append(Part("waiting.no_node", f"{name} has no node", {"broker_group": name}))
            continue
        try:
            if phase is Phase.JOINING and not is_old_enough:
                why.append(Part("waiting.consumers", f"{prefix}consumers connect before producers", where))
            elif phase is Phase.JOINING:
                await _make_ready(place, route, known, places)
                ready.append(name)
            elif phase is Phase.DRAINING:
                reason = await _not_empty(place, route.subject, known)
                if reason:
                    why.append(Part(reason.code, prefix + reason.text, {**where, **reason.values}))
                else:
                    empty.append(name)
        except (QmqError, OSError) as error:
            values = {"broker_group": name, "error": str(error)[:TEXT_CHARS_MAX]}
            why.append(Part("waiting.error", f"{name}: {error}", values))
    return Sight(tuple(ready), tuple(empty), tuple(why))


async def _make_ready(place: Place, route: Route, known: list[str], places: dict[str, Place]) -> None:
    """Give every consumer group a position on a joining broker group, at its end: nothing is written there yet.

    A retry subject that a returned broker group still has is read from its beginning, as by a first pull. The groups are
    those the database knows and those that the subject's other nodes know. Those that exist stay where they are. Broadcast
    consumers have a position each, which their first pull makes.
    """
    groups = set(known)
    for name in route.broker_groups:
        other = places.get(name)
        if other is not None and other.name != place.name and route.phases.get(name) is not Phase.JOINING:
            stats = await _subject_stats(other, route.subject)
            groups |= {group["group"] for group in (stats or {}).get("groups", []) if not group["broadcast"]}
    host, _, port = place.address.rpartition(":")
    caller = Caller(host, int(port))
    await caller.connect()
    try:
        for group in sorted(groups):
            for subject, start in ((route.subject, "latest"), (retry_subject(route.subject, group), "earliest")):
                request = EnsureGroupRequest(subject, group, start, 0, only_if_new=True, broadcast=False)
                frame = await caller.call(Command.ENSURE_GROUP, request.encode(), timeout_s=limits.NODE_SECONDS)
                if frame.code != ResponseCode.SUCCESS:
                    raise QmqError(f"{place.name} answered {frame.code} when group {group} of {subject} was made")
    finally:
        await caller.close()


async def _not_empty(place: Place, subject: str, known: list[str]) -> Part | None:
    """Return why a draining broker group can't leave yet; None when it has no messages left to read.

    A group that the database knows and that has no position there has read none of them, also if it never pulls there.
    """
    answer = await node_admin(place.admin_address, limits.NODE_SECONDS).stats(subject)
    if not answer["closed"]:
        return Part("waiting.not_received", "the node has not received the change yet")
    if not answer["subjects"]:
        return None
    stats = answer["subjects"][0]
    if stats["unsynced"]:
        return counting(
            "waiting.unsynced", stats["unsynced"], f"{counted(stats['unsynced'], 'message')} not synced yet"
        )
    for group in stats["groups"]:
        reason = _unread(group)
        if reason:
            return reason
    positions = {group["group"] for group in stats["groups"]}
    stored = stats["end_sequence"] - stats["begin_sequence"]
    for name in sorted(set(known) - positions):
        if stored:
            return _lag(name, stored)
    groups = positions | set(known)
    for name in sorted(groups):
        retries = await _subject_stats(place, retry_subject(subject, name))
        for group in (retries or {}).get("groups", []):
            reason = _unread(group)
            if reason:
                return Part("waiting.retries", f"retries: {reason.text}", reason.values)
        if retries is not None and not retries["groups"] and retries["end_sequence"] > retries["begin_sequence"]:
            return Part("waiting.retries_not_pulled", f"retries of group {name} were never pulled", {"group": name})
    return None


def _unread(group: dict[str, Any]) -> Part | None:
    if group["broadcast"] and not any(consumer["online"] for consumer in group["consumers"]):
        # Its consumers are gone, and their positions with them.
        return None
    return _lag(group["group"], group["lag"]) if group["lag"] else None


def _lag(name: str, count: int) -> Part:
    return Part("waiting.lag", f"group {name} has {counted(count, 'message')} pending", {"group": name, "count": count})


async def _subject_stats(place: Place, subject: str) -> dict[str, Any] | None:
    """A subject's numbers on a node; None when the node has none of it."""
    answer = await node_admin(place.admin_address, limits.NODE_SECONDS).stats(subject)
    found: list[dict[str, Any]] = answer["subjects"]
    return found[0] if found else None


REBALANCE = Job(
    "rebalance", 10.0, 60.0, "assigns two broker groups to each subject and skips draining groups", rebalance
)
MOVES = Job("moves", 2.0, 60.0, "moves subjects between broker groups", take_steps)
