"""The delay node's own pages of its admin HTTP server: /stats, queries, the calendar, and changes."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import InitVar, asdict, dataclass
from itertools import islice
from typing import Any, TypeVar

from aiohttp import web

from delay_node.changes import Changes
from delay_node.dispatcher import Dispatcher
from delay_node.errors import BadQuery, LimitReached
from delay_node.metrics import LatenessWindow
from delay_node.queries import TIME_MAX_MS, Found, Queries
from delay_node.store import DelayStore
from delay_node.trusted_clock import HeldStep, TrustedClock
from qmq.clock import Clock
from qmq.daemon.admin_http import BadRequest, Params
from qmq.daemon.shared_page import SharedPages
from qmq.errors import LogError
from qmq.policy import NodePolicy, sends_policy
from qmq.protocol.delayed import (
    CancelDelayedRequest,
    ChangeDelayedRequest,
    DelayedTarget,
    ListDelayedRequest,
    Operation,
)

RULES_SHOWN_MAX = 1_000
"""Subjects whose rules `/stats` lists."""
PROBLEMS_SHOWN_MAX = 20
"""Subjects with undeliverable messages that `/stats` lists."""


def delay_stats(
    store: DelayStore,
    dispatcher: Dispatcher,
    clock: TrustedClock,
    policy: NodePolicy,
    delivered_per_second: float,
    lateness: LatenessWindow,
) -> dict[str, Any]:
    """Return what `/stats` contains beside the part of every node."""
    now_ms, held = clock.now_ms(), clock.held
    return {
        "pending": store.pending,
        "due_soon": dispatcher.due_soon,
        "overdue": dispatcher.lanes.overdue,
        "put_aside": store.refused,
        "unreadable_messages": store.counters.lost + store.bodies.unreadable,
        "hours": len(store.hours),
        "subjects": len(store.subjects),
        "wheel": {"messages": store.wheel.count, "memory_bytes": store.wheel.memory_bytes},
        "hours_memory_bytes": store.hours.memory_bytes,
        "unwritten_bytes": store.hours.unwritten_bytes,
        "delivered": store.counters.delivered,
        "delivered_per_second": delivered_per_second,
        "lateness_p99_seconds": lateness.quantile(0.99),
        "cancelled": store.counters.cancelled,
        "moved": store.counters.moved,
        "is_loading": dispatcher.frontier_ms is not None,
        "undeliverable": dispatcher.lanes.problems(PROBLEMS_SHOWN_MAX),
        "subject_rules": [
            {"subject": name, **sends_policy(rules)}
            for name, rules in islice(policy.subjects.items(), RULES_SHOWN_MAX)
            if rules.closed or rules.has_quota
        ],
        "clock": {
            "now_ms": now_ms,
            "ahead_ms": held.ahead_ms if held is not None else 0,
            "held_since_ms": held.since_ms if held is not None else None,
        },
    }


T = TypeVar("T")


def shown(found: Found) -> dict[str, Any]:
    item = found.item()
    return {
        "message_id": item.message.message_id,
        "subject": item.message.subject,
        "due_ms": item.due_ms,
        "state": item.state,
        "created_ms": item.message.created_at_ms,
        "tags": list(item.message.tags),
        "properties": item.message.properties,
        "bytes": len(item.raw),
    }


async def answered(work: Awaitable[T]) -> T:
    """Await work; convert the node's errors to HTTP errors."""
    try:
        return await work
    except (BadQuery, LimitReached) as error:
        raise BadRequest(400, error.code, str(error)) from error
    except LogError as error:
        raise BadRequest(500, error.code, str(error)) from error


@dataclass(eq=False, repr=False)
class DelayPages:
    _describe: Callable[[], dict[str, Any]]
    _confirm: Callable[[], Awaitable[HeldStep | None]]
    _queries: Queries
    _changes: Changes
    clock: InitVar[Clock]

    def __post_init__(self, clock: Clock) -> None:
        self._stats_pages = SharedPages(clock)
        self.json_routes = {
            "/stats": self._stats,
            "/calendar": self._calendar,
            "/delayed": self._list,
            "/delayed/{message_id}": self._find,
        }
        self.json_posts = {
            "/delayed/cancel": self._cancel_matching,
            "/delayed/{message_id}/{operation:cancel|reschedule|deliver}": self._change,
            "/clock/confirm": self._confirm_clock,
        }

    async def _stats(self, request: web.Request) -> bytes:
        return await self._stats_pages.get(None, self._build_stats)

    async def _build_stats(self) -> bytes:
        return json.dumps(self._describe(), ensure_ascii=False, separators=(",", ":")).encode()

    async def _calendar(self, request: web.Request) -> dict[str, Any]:
        params = Params(request.query)
        subject, from_ms = params.text("subject", ""), params.moment_ms("from", 0)
        hours = await answered(self._queries.calendar(subject, from_ms, params.moment_ms("to", TIME_MAX_MS)))
        return {"subject": subject, "hours": [{"begin_ms": begin, "pending": count} for begin, count in hours]}

    @staticmethod
    def _query(params: Params) -> ListDelayedRequest:
        return ListDelayedRequest(
            params.text("subject", ""),
            params.moment_ms("from", 0),
            params.moment_ms("to", TIME_MAX_MS),
            tuple(word for word in params.text("states", "").split(",") if word),
            params.texts("match"),
            params.whole("limit", 50),
            params.text("cursor", ""),
        )

    async def _list(self, request: web.Request) -> dict[str, Any]:
        page, cursor = await answered(self._queries.page(self._query(Params(request.query))))
        return {"messages": [shown(found) for found in page], "cursor": cursor or None}

    @staticmethod
    def _target(request: web.Request, params: Params) -> DelayedTarget:
        return DelayedTarget(
            request.match_info["message_id"], params.text("subject", ""), params.moment_ms("due_ms", -1)
        )

    async def _find(self, request: web.Request) -> dict[str, Any]:
        found = await answered(self._queries.find(self._target(request, Params(request.query))))
        return {"messages": [shown(item) for item in found]}

    async def _change(self, request: web.Request, params: Params) -> dict[str, Any]:
        operation = Operation(request.match_info["operation"])
        to_ms = params.moment_ms("to") if operation is Operation.RESCHEDULE else -1
        change = ChangeDelayedRequest(operation, to_ms, (self._target(request, params),))
        (done,) = (await answered(self._changes.change(change))).changes
        return asdict(done)

    async def _cancel_matching(self, request: web.Request, params: Params) -> dict[str, Any]:
        query = CancelDelayedRequest(self._query(params), params.flag("dry_run"))
        done = await answered(self._changes.cancel_matching(query))
        return asdict(done) | {"cursor": done.cursor or None}

    async def _confirm_clock(self, request: web.Request, params: Params) -> dict[str, Any]:
        try:
            alarm = await self._confirm()
        except OSError as error:
            raise BadRequest(
                503, "clock.not_confirmed", f"the held step can't be removed from the disk: {error}"
            ) from error
        return {"confirmed": True, "was_ahead_ms": alarm.ahead_ms if alarm is not None else 0}
