"""Consumer groups across the broker groups that serve their subject: asked of the nodes, and their progress reset.

A position is kept by each broker group by itself. An answer names every broker group; what could not be asked is None with
the reason.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.db import transaction

from metaserver import queries
from metaserver.services import audit, subjects
from metaserver.services.changes import Actor, Change, Conflict, NotFound, changing
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
            return Answer(name, None, "no node of it has registered")
        try:
            return Answer(name, await call(NodeAdmin(row.admin_address, ASK_SECONDS)))
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
        raise NotFound(f"subject {subject!r} is served by no broker group yet", code="route.unknown")
    return list(route.broker_groups)


def look(subject: str, group: str) -> list[Answer]:
    """The group's page of every broker group of its subject."""
    return ask(broker_groups_of(subject), lambda node: node.group(subject, group))


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
    dry_run: bool = False,
) -> tuple[Change, list[Answer]]:
    """Set a group's position; with `dry_run` say what that skips and repeats. What each broker group said comes along.

    Every broker group has to be reachable before anything is set. A failure in between is told, with what was done.

    Raises:
        NotFound: the subject has no broker group, or not this one.
        NotAllowed: the subject belongs to another team.
        ConnectionLost: a broker group can't be asked; nothing was set.
        Conflict: some broker groups were set and some were not; the text says which.
    """
    names = broker_groups_of(subject)
    if place.broker_group is not None:
        if place.broker_group not in names:
            raise NotFound(f"{place.broker_group!r} does not serve {subject}", code="broker_group.unknown")
        names = [place.broker_group]
    plans = ask(names, lambda node: node.reset_preview(subject, group, place.to, place.value))
    held = [answer for answer in plans if answer.value is not None and answer.value["exists"]]
    away = [answer for answer in plans if answer.value is None and answer.is_there]
    if away:
        raise ConnectionLost(
            f"{away[0].broker_group} can't be asked, nothing was changed: {away[0].reason}", code="broker_group.away"
        )
    if not held:
        raise NotFound(f"no broker group has a position of {group} on {subject} yet", code="consumer_group.no_position")
    target = f"{subject}/{group}"
    before = {answer.broker_group: str(answer.value["position"]) for answer in held if answer.value}
    wanted = {answer.broker_group: str(answer.value["new_position"]) for answer in held if answer.value}
    if dry_run:
        return Change(target, before, wanted), held
    _authorize(subject, actor)
    done = ask([answer.broker_group for answer in held], lambda node: node.reset(subject, group, place.to, place.value))
    after = {a.broker_group: str(a.value["new_position"]) for a in done if a.value is not None}
    failed = [answer for answer in done if answer.value is None]
    with changing(dry_run=False):
        said = f"{reason} (failed on {', '.join(a.broker_group for a in failed)})" if failed else reason
        audit.record(
            actor=actor, action="consumer_group.reset", target=target, reason=said, before=before, after=after or None
        )
    if failed:
        raise Conflict(
            f"set on {', '.join(after) or 'none'}, but {failed[0].broker_group} failed: {failed[0].reason}; ask again",
            code="consumer_group.reset_in_part",
        )
    return Change(target, before, after), done


def forget(subject: str, group: str, *, force: bool, actor: Actor, reason: str = "", dry_run: bool = False) -> Change:
    """Remove a group's position from every broker group; without `force` only where nobody reads and nothing waits.

    Raises:
        Conflict: it is in use.
        ConnectionLost: a broker group can't be asked; nothing was changed.
    """
    pages = look(subject, group)
    held = [answer for answer in pages if answer.value is not None]
    away = [answer for answer in pages if answer.value is None and answer.is_there]
    if away:
        raise ConnectionLost(f"{away[0].broker_group} can't be asked: {away[0].reason}", code="broker_group.away")
    for answer in held:
        page = answer.value or {}
        if not force and (page["lag"] or any(member["online"] for member in page["members"])):
            raise Conflict(
                f"{group} is in use on {answer.broker_group}: {page['lag']} messages to go; force=true removes it anyway",
                code="consumer_group.in_use",
            )
    target = f"{subject}/{group}"
    before = {a.broker_group: str(a.value["next_sequence"]) for a in held if a.value is not None}
    if not dry_run and held:
        _authorize(subject, actor)
        done = ask([a.broker_group for a in held], lambda node: node.forget(subject, group, force=force))
        failed = [answer for answer in done if answer.value is None and answer.is_there]
        with changing(dry_run=False):
            audit.record(
                actor=actor, action="consumer_group.forget", target=target, reason=reason, before=before, after=None
            )
        if failed:
            raise Conflict(f"{failed[0].broker_group} failed: {failed[0].reason}", code="consumer_group.forget_in_part")
    return Change(target, before, None)


def _authorize(subject: str, actor: Actor) -> None:
    """Check, just before nodes are changed, that the actor may change the subject's groups. Raises NotFound, NotAllowed."""
    with transaction.atomic():
        subjects.authorize(subject, actor)


def node_stats(admin_address: str) -> Answer:
    """A node's own numbers, without its subjects."""

    async def call() -> dict[str, Any]:
        return await NodeAdmin(admin_address, ASK_SECONDS).stats(limit=1)

    try:
        return Answer("", async_to_sync(call)())
    except (QmqError, OSError, SettingError) as error:
        return Answer("", None, str(error))
