"""Pages of one consumer group: its numbers and members, preview of a reset, reset, and removal."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from aiohttp import web

from broker_node.admin.stats import group_numbers
from broker_node.admin.view import NodeView, reported
from broker_node.delivery.group_position import STARTS, ResetPlan, plan_reset, set_position, without_time
from broker_node.storage.consume_log import KNOWN_LOOK_MAX, stored_at_ms
from broker_node.storage.disk_work import completed
from broker_node.storage.oldest_sequence import adjust_begin
from broker_node.storage.progress import Consumer
from broker_node.storage.subject import Group, Subject
from qmq.errors import LogError
from qmq.lag import lag_of
from qmq.protocol.names import check_group, retry_subject
from qmq.words import counted
from qmq_node.admin.server import BadRequest, Params
from qmq_node.log.index import IndexView

MEMBERS_MAX = 500
"""Most members of one answer; the rest comes with `after`."""
IN_FLIGHT_RANGES_MAX = 20
"""Most ranges of messages in flight of one member, the oldest first."""
DURABLE_SECONDS_MAX = 10.0
"""After this long without a confirmation of the disk, the outcome of a change is reported as unknown."""
SEQUENCE_MAX = 1 << 62
TIME_MAX_MS = 1 << 48
"""Later times (after the year 10889) are rejected."""


class GroupPages:
    """Pages of the consumer groups of one broker."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        self._built_at = view.node.clock.monotonic()
        """Monotonic seconds; consumers restored from disk were last seen before it."""
        group = "/subjects/{subject:[^/]+}/groups/{group:[^/]+}"
        self.routes = {group: self._show, f"{group}/reset-preview": self._preview}
        self.posts = {f"{group}/reset": self._reset, f"{group}/forget": self._forget}

    # --- look ------------------------------------------------------------------------------------------------------

    async def _named(self, request: web.Request) -> tuple[Subject, Group]:
        subject = await self._view.subject(request.match_info["subject"])
        return subject, self._view.group(subject, request.match_info["group"])

    async def _show(self, request: web.Request) -> dict[str, Any]:
        view, (subject, group) = self._view, await self._named(request)
        limit = min(Params(request.query).whole("limit", MEMBERS_MAX, minimum=1), MEMBERS_MAX)
        after = request.query.get("after", "")
        numbers, ages = group_numbers(view, subject, group)
        consumers = group.progress.consumers
        names = sorted(name for name in consumers if name > after)
        steady = view.rates.steady_per_second(subject.meter)
        page = names[:limit]
        answer = {
            "subject": subject.name,
            "begin_sequence": subject.begin,
            "end_sequence": subject.visible_end,
            "members_total": len(consumers),
            "steady_send_rate": steady and steady[0],
            "next_after": page[-1] if len(names) > len(page) else None,
        }
        members = [self._member(subject, group.progress.group, consumers[name]) for name in page]

        def read() -> None:
            for age in ages:
                age.read()
            for member, entries in members:
                if entries is not None:
                    _add_oldest(member, entries, view.node.clock.wall_ms())

        await asyncio.to_thread(read)
        return {**answer, **numbers, "members": [member for member, _ in members]}

    def _member(self, subject: Subject, group: str, consumer: Consumer) -> tuple[dict[str, Any], IndexView | None]:
        """A consumer, and the index entries of its oldest unacknowledged message; None if there is no such entry."""
        view, log = self._view, consumer.log
        now = view.node.clock.monotonic()
        online, _ = consumer.presence(now, view.lease_seconds)
        reasons: dict[str, str] = {}
        address = view.handlers.clients.address((subject.name, group, consumer.consumer_id))
        if address is None:
            reasons["address"] = "it has no open connection from which it pulled"
        seen: float | None = None
        if consumer.seen_at <= self._built_at:
            reasons["last_seen_seconds"] = "not seen since this node started"
        else:
            seen = round(now - consumer.seen_at, 3)
        runs = sorted(log.runs(), key=lambda run: run.begin)
        oldest, entries = log.oldest_sequence(), None
        if oldest is None:
            reasons["oldest_unacked_ms"] = "nothing is in flight"
        elif oldest < subject.begin:
            reasons["oldest_unacked_ms"] = "retention removed the oldest message in flight"
        else:
            entries = subject.consume_log.view(oldest, oldest + KNOWN_LOOK_MAX)
        member = {
            "consumer_id": consumer.consumer_id,
            "address": address,
            "duplicate_addresses": view.delivery.duplicates.addresses(consumer, now),
            "online": online,
            "last_seen_seconds": seen,
            "in_flight": log.in_flight,
            "in_flight_ranges": [[run.begin, run.begin + run.count] for run in runs[:IN_FLIGHT_RANGES_MAX]],
            "in_flight_ranges_total": len(runs),
            "oldest_unacked_ms": None,
            "unacked_seconds": round(now - consumer.progressed_at, 3) if log.in_flight else 0.0,
            "pulled": log.pulled,
            "acked": log.acked,
            "reasons": reasons,
        }
        return member, entries

    # --- reset -----------------------------------------------------------------------------------------------------

    @staticmethod
    def _place(params: Params) -> tuple[str, int]:
        start = params.text("to")
        if start not in STARTS:
            raise BadRequest(400, "parameter.wrong", f"to is {start!r}; must be one of {', '.join(STARTS)}")
        value, most = 0, 0
        if start == "time":
            value, most = params.moment_ms("value"), TIME_MAX_MS
        elif start == "sequence":
            value, most = params.whole("value", -1), SEQUENCE_MAX
        if not 0 <= value <= most:
            raise BadRequest(400, "parameter.wrong", f"value is {params.text('value')!r}; must be 0 to {most}")
        return start, value

    async def _plan(self, request: web.Request, params: Params) -> tuple[Subject, str, int, ResetPlan]:
        subject, name = await self._view.subject(request.match_info["subject"]), request.match_info["group"]
        with reported():
            check_group(name)
        start, value = await without_time(subject, *self._place(params))
        plan = await completed(lambda: plan_reset(self._view.store, subject, name, start, value))
        return subject, start, value, plan

    @staticmethod
    def _shown(subject: Subject, name: str, plan: ResetPlan) -> dict[str, Any]:
        stored = {"begin_sequence": subject.begin, "end_sequence": subject.visible_end}
        return {"subject": subject.name, "group": name, **stored, **asdict(plan)}

    async def _preview(self, request: web.Request) -> dict[str, Any]:
        subject, _, _, plan = await self._plan(request, Params(request.query))
        return self._shown(subject, request.match_info["group"], plan)

    async def _reset(self, request: web.Request, params: Params) -> dict[str, Any]:
        view, name = self._view, request.match_info["group"]
        subject, start, value, plan = await self._plan(request, params)
        known = subject.groups.get(name)
        broadcast = known.progress.broadcast if known is not None else params.flag("broadcast")
        answer = self._shown(subject, name, plan)
        with reported():
            group, _ = await completed(lambda: set_position(view.store, subject, name, start, value, broadcast))
        await wait_until_durable(view.node.committer.synced, group.progress.applied_at)
        view.handlers.wake(subject.name)
        return {**answer, "done": True}

    # --- forget ----------------------------------------------------------------------------------------------------

    async def _forget(self, request: web.Request, params: Params) -> dict[str, Any]:
        view, (subject, group) = self._view, await self._named(request)
        name, forced = group.progress.group, params.flag("force")
        if subject.is_retry:
            raise BadRequest(
                400,
                "group.retry_position",
                f"{subject.name} is a retry subject: a new group would receive all its messages again",
            )
        reason = await completed(lambda: self._why_kept(subject, group))
        if reason and not forced:
            raise BadRequest(
                409, "group.in_use", f"group {name} of {subject.name} {reason}; use force to remove it anyway"
            )
        next_sequence = group.progress.next_sequence
        await wait_until_durable(view.node.committer.synced, view.store.forget_group(subject, group))
        return {
            "subject": subject.name,
            "group": name,
            "forgotten": True,
            "next_sequence": next_sequence,
            "forced_although": reason or None,
        }

    def _why_kept(self, subject: Subject, group: Group) -> str:
        """Returns why a group must not be removed; "" if it is unused. Raises DiskWork."""
        view, progress = self._view, group.progress
        if members := view.members_online(group):
            return f"has {counted(members, 'consumer')} seen in the last {view.lease_seconds:g} s"
        lag = lag_of(subject.visible_end, progress.next_sequence, subject.begin, progress.in_flight)
        if lag.total:
            return f"has a lag of {lag.total} messages"
        other = view.store.subjects.get(retry_subject(subject.name, progress.group))
        if other is not None and other is not subject:
            adjust_begin(view.store, other)
            reader = other.groups.get(progress.group)
            position = reader.progress.next_sequence if reader is not None else other.begin
            waiting = lag_of(other.visible_end, position, other.begin, reader.progress.in_flight if reader else 0)
            if waiting.total:
                return f"has {waiting.total} messages in its retry subject"
        return ""


def _add_oldest(member: dict[str, Any], entries: IndexView, now_ms: int) -> None:
    """Add the age of a member's oldest unacknowledged message. For any thread."""
    try:
        at_ms = stored_at_ms(entries, entries.begin)
    except LogError as error:
        member["reasons"]["oldest_unacked_ms"] = f"its index entry can't be read: {error}"
        return
    if at_ms is None:
        member["reasons"]["oldest_unacked_ms"] = "the oldest message in flight is withheld: its commit is corrupted"
    else:
        member["oldest_unacked_ms"] = max(0, now_ms - at_ms)


async def wait_until_durable(synced: Callable[[int], Awaitable[None]], offset: int) -> None:
    """Wait until a record is on disk. Raises BadRequest 503 after DURABLE_SECONDS_MAX, or when the log fails."""
    try:
        async with asyncio.timeout(DURABLE_SECONDS_MAX):
            await synced(offset)
    except TimeoutError as error:
        raise BadRequest(
            503,
            "change.unknown",
            f"the disk did not confirm it in {DURABLE_SECONDS_MAX:g} s: the change may have been made; check the state",
        ) from error
    except LogError as error:
        raise BadRequest(503, "change.unknown", f"{error}: the change may have been made; check the state") from error
