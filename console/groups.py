"""Consumer groups across the broker groups that serve their subject: asked of the nodes, and their progress reset.

A position is kept by each broker group by itself. An answer names every broker group; what could not be asked is None with
the reason.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync

from console.node_admin import node_admin
from metaserver import queries
from metaserver.services import groups as service
from metaserver.services.changes import Actor, Change, Conflict, NotFound
from qmq.client.nodes import NodeAdmin, NodeRefused
from qmq.errors import ConnectionLost, QmqError, SettingError

ASK_SECONDS = 5.0
UNKNOWN_THERE = ("subject.unknown", "group.unknown")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one broker group said; None with the reason when it could not be asked."""

    broker_group: str
    value: dict[str, Any] | None
    reason: str = ""
    is_there: bool = True
    """False when the node answered that it has no such subject or group."""


def ask(names: list[str], call: Callable[[NodeAdmin], Awaitable[dict[str, Any]]]) -> list[Answer]:
    """Ask the masters of these broker groups at once."""
    masters = queries.masters()

    async def one(name: str) -> Answer:
        row = masters.get(name)
        if row is None or not row.admin_address:
            return Answer(name, None, "no node has registered")
        try:
            return Answer(name, await call(node_admin(row.admin_address, ASK_SECONDS)))
        except NodeRefused as error:
            return Answer(name, None, str(error), is_there=error.code not in UNKNOWN_THERE)
        except (QmqError, OSError) as error:
            return Answer(name, None, str(error))

    async def every() -> list[Answer]:
        return list(await asyncio.gather(*(one(name) for name in names)))

    return async_to_sync(every)()


def broker_groups_of(subject: str) -> list[str]:
    """The broker groups that serve a subject.

    Raises:
        NotFound: none does yet.
    """
    route = queries.routes().filter(subject__name=subject).first()
    if route is None:
        raise NotFound(f"Subject {subject!r} has no broker group yet.", code="route.unknown")
    return list(route.broker_groups)


@dataclass(frozen=True, slots=True)
class ResetPlace:
    """Where a group is to be set: "earliest", "latest", "time" (milliseconds) or "sequence", on all broker groups or one."""

    to: str
    value: int | None = None
    broker_group: str | None = None


def reset(
    subject: str,
    group: str,
    place: ResetPlace,
    *,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> tuple[Change, list[Answer]]:
    """Set a group's position; with `dry_run` return what that skips and repeats. The answers are per broker group.

    Every broker group has to be reachable before anything is set. The audit entry is written before, the outcome after.

    Raises:
        NotFound: the subject has no broker group, or not this one.
        NotAllowed: the subject belongs to another team.
        ConnectionLost: a broker group can't be reached; nothing was set.
        Stale: the group has another version.
        Conflict: another request changes the group's progress; or some broker groups were set and some were not.
    """
    names = broker_groups_of(subject)
    if place.broker_group is not None:
        if place.broker_group not in names:
            raise NotFound(
                f"Broker group {place.broker_group!r} does not serve subject {subject}.", code="broker_group.unknown"
            )
        names = [place.broker_group]
    if expected_version is not None:
        service.update_group(subject, group, {}, actor=actor, expected_version=expected_version, dry_run=True)
    plans = ask(names, lambda node: node.reset_preview(subject, group, place.to, place.value))
    held = [answer for answer in plans if answer.value is not None and answer.value["exists"]]
    _check_reachable(plans)
    if not held:
        raise NotFound(
            f"Consumer group {group} has no progress on subject {subject} yet.", code="consumer_group.no_position"
        )
    target = f"{subject}/{group}"
    before = {answer.broker_group: str(answer.value["position"]) for answer in held if answer.value}
    planned = {answer.broker_group: str(answer.value["new_position"]) for answer in held if answer.value}
    if dry_run:
        return Change(target, before, planned), held
    service.begin_progress_change(
        subject, group, action="consumer_group.reset", actor=actor, before=before, after=planned, reason=reason,
        expected_version=expected_version,
    )  # fmt: skip
    answers = ask(list(before), lambda node: node.reset(subject, group, place.to, place.value))
    after = {a.broker_group: str(a.value["new_position"]) for a in answers if a.value is not None}
    failed = {a.broker_group: a.reason for a in answers if a.value is None}
    _end(subject, group, "reset", actor=actor, reason=reason, before=before, after=after, failed=failed)
    return Change(target, before, after), answers


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

    The version is checked, the audit entry written and the row marked before the first node is asked; while it is marked
    every other change of the group is refused.

    Raises:
        Conflict: it is in use, another request changes its progress, or a node failed.
        ConnectionLost: a broker group can't be reached; nothing was changed.
        Stale: the group has another version; nothing was changed.
    """
    planned = service.delete_group(subject, group, actor=actor, expected_version=expected_version, dry_run=True)
    route = queries.routes().filter(subject__name=subject).first()
    pages = ask(list(route.broker_groups), lambda node: node.group(subject, group)) if route is not None else []
    _check_reachable(pages)
    before = {}
    for answer in pages:
        page = answer.value
        if page is None:
            continue
        if not force and (page["lag"] or any(member["online"] for member in page["members"])):
            raise Conflict(
                f"{group} is in use on {answer.broker_group}: {page['lag']} messages pending. Use force=true to delete it anyway.",
                code="consumer_group.in_use",
            )
        before[answer.broker_group] = str(page["next_sequence"])
    if dry_run:
        return planned
    if not before:
        return service.delete_group(subject, group, actor=actor, reason=reason, expected_version=expected_version)
    service.begin_progress_change(
        subject, group, action="consumer_group.forget", actor=actor, before=before, after=None, reason=reason,
        expected_version=expected_version,
    )  # fmt: skip
    answers = ask(list(before), lambda node: node.forget(subject, group, force=force))
    failed = {a.broker_group: a.reason for a in answers if a.value is None and a.is_there}
    if failed:
        after = {name: "" for name in before if name not in failed}
        _end(subject, group, "forget", actor=actor, reason=reason, before=before, after=after, failed=failed)
    return service.end_forget(subject, group, actor=actor, reason=reason)


def _check_reachable(answers: list[Answer]) -> None:
    """Raises ConnectionLost when a broker group could not be asked."""
    away = next((answer for answer in answers if answer.value is None and answer.is_there), None)
    if away is not None:
        raise ConnectionLost(
            f"Broker group {away.broker_group} can't be reached, so nothing was changed: {away.reason}",
            code="broker_group.away",
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


def node_stats(admin_address: str) -> Answer:
    """A node's own numbers, without its subjects."""

    async def call() -> dict[str, Any]:
        return await node_admin(admin_address, ASK_SECONDS).stats(limit=1)

    try:
        return Answer("", async_to_sync(call)())
    except (QmqError, OSError, SettingError) as error:
        return Answer("", None, str(error))
