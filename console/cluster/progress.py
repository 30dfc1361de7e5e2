"""Consumer groups across the broker groups that serve their subject: asked of the nodes, and their progress reset.

Each broker group keeps a position of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

from console.cluster.asking import Answers, brokers
from metaserver import queries
from metaserver.errors import Conflict, NotFound
from metaserver.services import groups as service
from metaserver.services.changes import Actor, Change, Request
from qmq.errors import ConnectionLost


def broker_groups_of(subject: str) -> list[str]:
    """The broker groups that serve a subject.

    Raises:
        NotFound: none does yet.
    """
    route = queries.routes().filter(subject__name=subject).first()
    if route is None:
        raise NotFound(f"Subject {subject!r} has no broker group yet.", code="route.unknown")
    return list(route.broker_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlace:
    """Where a group is to be set, on all broker groups or one.

    `to` is "earliest", "latest", "time", "positions" or "group".
    """

    to: str
    time_ms: int | None = None
    positions: Mapping[str, int] = field(default_factory=dict)
    """For "positions": sequences by broker group. Others are left as they are."""
    group: str = ""
    """For "group": the consumer group of the same subject whose positions are copied."""
    broker_group: str | None = None
    """Only this broker group; None: all."""


Moves = Mapping[str, tuple[str, int | None]]
"""By broker group: what its node is asked to set the group to."""


def reset(
    subject: str,
    group: str,
    place: ResetPlace,
    *,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> tuple[Change, Answers[dict[str, Any]]]:
    """Set a group's position; with `dry_run` return what that skips and repeats. The answers are per broker group.

    Every broker group has to be reachable before anything is set. The audit entry is written before, the outcome after. A group
    that is known, and has no position on a broker group, gets one.

    Raises:
        NotFound: the subject has no broker group, or not this one; or there is no such group, or none to copy positions from.
        NotAllowed: the subject belongs to another team.
        ConnectionLost: a broker group can't be reached; nothing was set.
        Stale: the group has another version.
        Conflict: another request changes the group's progress; or some broker groups were set and some were not.
    """
    if expected_version is not None:
        service.update_group(subject, group, {}, actor=actor, expected_version=expected_version, dry_run=True)
    moves = _moves(subject, place)
    previews = _previews(subject, group, moves)
    held = previews.values
    if not queries.consumer_groups().filter(subject__name=subject, name=group).exists():
        held = {name: preview for name, preview in held.items() if preview["exists"]}
    if not held:
        raise _no_position(subject, group)
    target = f"{subject}/{group}"
    before = {name: str(preview["position"]) for name, preview in held.items() if preview["exists"]}
    previewed = {name: str(preview["new_position"]) for name, preview in held.items()}
    if dry_run:
        return Change(target, before, previewed), Answers(held, {}, {}, {})
    service.begin_progress_change(
        subject, group, action="consumer_group.reset", actor=actor, before=before, after=previewed, reason=reason,
        expected_version=expected_version,
    )  # fmt: skip
    answers = brokers(held).ask(lambda name, node: node.reset(subject, group, *moves[name]))
    after = {name: str(value["new_position"]) for name, value in answers.values.items()}
    failed = answers.unreachable | answers.absent
    _end(subject, group, "reset", actor=actor, reason=reason, before=before, after=after, failed=failed)
    return Change(target, before, after), answers


def create(
    subject: str, group: str, values: Mapping[str, Any], place: ResetPlace, **request: Unpack[Request]
) -> tuple[Change, Answers[dict[str, Any]]]:
    """Make a group known, and give it a position on the subject's broker groups before its first consumer pulls.

    Every broker group has to be reachable before anything is changed. If one fails afterwards, the group exists, and a reset gives
    it the missing positions.

    Raises:
        Conflict: the group exists, or has progress on a broker group; or a broker group failed.
        NotFound, NotAllowed, ConnectionLost: as `reset`.
    """
    planned = service.create_group(subject, group, values, actor=request["actor"], dry_run=True)
    previews = _previews(subject, group, _moves(subject, place))
    if there := sorted(name for name, preview in previews.values.items() if preview["exists"]):
        raise Conflict(
            f"{group} already has progress on {', '.join(there)}. Create it without a start position, then reset it.",
            code="consumer_group.has_position",
        )
    if request.get("dry_run", False):
        return planned, previews
    change = service.create_group(subject, group, values, **request)
    _, answers = reset(subject, group, place, actor=request["actor"], reason=request.get("reason", ""))
    return change, answers


def _moves(subject: str, place: ResetPlace) -> Moves:
    """What each broker group's node is asked for. Raises NotFound, and ConnectionLost when positions to copy can't be read."""
    names = broker_groups_of(subject)
    for name in (*place.positions, *([place.broker_group] if place.broker_group is not None else [])):
        if name not in names:
            raise NotFound(f"Broker group {name!r} does not serve subject {subject}.", code="broker_group.unknown")
    positions = place.positions
    if place.to == "group":
        pages = brokers(names).ask(lambda _, node: node.group(subject, place.group))
        check_reachable(pages)
        if not pages.values:
            raise _no_position(subject, place.group)
        positions = {name: int(page["next_sequence"]) for name, page in pages.values.items()}
    if place.to in ("positions", "group"):
        moves: Moves = {name: ("sequence", sequence) for name, sequence in positions.items()}
    else:
        moves = dict.fromkeys(names, (place.to, place.time_ms))
    return {name: move for name, move in moves.items() if place.broker_group in (None, name)}


def _previews(subject: str, group: str, moves: Moves) -> Answers[dict[str, Any]]:
    """What the moves would do. Raises ConnectionLost when a broker group can't be reached."""
    previews = brokers(moves).ask(lambda name, node: node.reset_preview(subject, group, *moves[name]))
    check_reachable(previews)
    return previews


def _no_position(subject: str, group: str) -> NotFound:
    return NotFound(
        f"Consumer group {group} has no progress on subject {subject} yet.", code="consumer_group.no_position"
    )


def forget(
    subject: str,
    group: str,
    *,
    force: bool,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Remove a group's position from every broker group, and its row; without `force` only if it has no member and no lag.

    The version is checked, the audit entry written and the row marked before the first node is contacted; while it is marked
    every other change of the group is refused.

    Raises:
        Conflict: it is in use, another request changes its progress, or a node failed.
        ConnectionLost: a broker group can't be reached; nothing was changed.
        Stale: the group has another version; nothing was changed.
    """
    previewed = service.delete_group(subject, group, actor=actor, expected_version=expected_version, dry_run=True)
    nodes = brokers(queries.broker_groups_of(subject) or [])
    pages = nodes.ask(lambda _, node: node.group(subject, group))
    check_reachable(pages)
    before = {}
    for name, page in pages.values.items():
        if not force and (page["lag"] or any(member["online"] for member in page["members"])):
            raise Conflict(
                f"{group} is in use on {name}: {page['lag']} messages pending. Use force=true to delete it anyway.",
                code="consumer_group.in_use",
            )
        before[name] = str(page["next_sequence"])
    if dry_run:
        return previewed
    if not before:
        return service.delete_group(subject, group, actor=actor, reason=reason, expected_version=expected_version)
    service.begin_progress_change(
        subject, group, action="consumer_group.forget", actor=actor, before=before, after=None, reason=reason,
        expected_version=expected_version,
    )  # fmt: skip
    failed = nodes.only(before).ask(lambda _, node: node.forget(subject, group, force=force)).unreachable
    if failed:
        after = {name: "" for name in before if name not in failed}
        _end(subject, group, "forget", actor=actor, reason=reason, before=before, after=after, failed=failed)
    return service.end_forget(subject, group, actor=actor, reason=reason)


def check_reachable(answers: Answers[Any]) -> None:
    """Raise ConnectionLost when a broker group could not be reached, before anything is changed."""
    for name, why in answers.unreachable.items():
        raise ConnectionLost(
            f"Broker group {name} can't be reached, so nothing was changed: {why}", code="broker_group.away"
        )


def _end(
    subject: str,
    group: str,
    what: str,
    *,
    actor: Actor,
    reason: str,
    before: dict[str, str],
    after: dict[str, str],
    failed: dict[str, str],
) -> None:
    """Write the outcome of a change of progress. Raises Conflict when a broker group failed."""
    service.end_progress_change(
        subject,
        group,
        action=f"consumer_group.{what}_{'failed' if failed else 'done'}",
        actor=actor,
        before=before,
        after={"done": after, "failed": failed} if failed else after,
        reason=reason,
    )
    if failed:
        name, why = next(iter(failed.items()))
        raise Conflict(
            f"done on {', '.join(after) or 'none'}, but {name} failed: {why}; try again",
            code=f"consumer_group.{what}_in_part",
        )
