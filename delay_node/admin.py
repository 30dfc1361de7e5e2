"""The delay node's own pages of its admin HTTP server: /stats, queries, the calendar, and changes."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import InitVar, asdict, dataclass
from typing import Any, TypeVar

from aiohttp import web

from delay_node.changes import Changes
from delay_node.errors import BadQuery, LimitReached
from delay_node.found import Found
from delay_node.queries import Queries
from delay_node.times import TIME_MAX_MS
from delay_node.trusted_clock import HeldStep
from qmq.clock import Clock
from qmq.errors import LogError
from qmq.protocol.delayed import (
    CancelDelayedRequest,
    ChangeDelayedRequest,
    DelayedTarget,
    ListDelayedRequest,
    Operation,
)
from qmq.protocol.masking import Masks
from qmq_node.admin.server import BadRequest, Params, by_query
from qmq_node.admin.shared_page import SharedPages
from qmq_node.admin.shown_properties import masks_of, shown_properties

T = TypeVar("T")
PAGE_BYTES_MAX = 1 << 20
"""Bytes of the messages of a page, unless the first has more: they are decoded and masked."""
_TARGET = ("message_id", "subject", "due_ms")
_FILTERS = ("subject", "from", "to", "match")


def shown(found: Found, masks: Masks) -> dict[str, Any]:
    """Return a message as JSON, masked. For any thread."""
    item = found.item()
    return {
        "message_id": item.message.message_id,
        "subject": item.message.subject,
        "due_ms": item.due_ms,
        "state": item.state,
        "created_ms": item.message.created_at_ms,
        "tags": list(item.message.tags),
        **shown_properties(item.message.properties, masks),
        "bytes": len(item.raw),
        "cursor": found.cursor,
    }


async def _messages(page: Sequence[Found], masks: Masks) -> list[dict[str, Any]]:
    return await asyncio.to_thread(lambda: [shown(found, masks) for found in page])


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
        reading = {"/delayed": self._list, "/delayed/message": self._find}
        self.json_routes = {
            "/stats": self._stats,
            "/calendar": self._calendar,
            **{path: by_query(page) for path, page in reading.items()},
        }
        self.json_posts = {
            # No changes: a filter, and a schema of bodies, may be longer than a line of HTTP.
            **reading,
            "/delayed/bulk-cancel": self._cancel_matching,
            "/delayed/{operation:cancel|reschedule|deliver}": self._change,
            "/clock/confirm": self._confirm_clock,
        }

    async def _stats(self, request: web.Request) -> bytes:
        return await self._stats_pages.get(None, self._build_stats)

    async def _build_stats(self) -> bytes:
        return json.dumps(self._describe(), ensure_ascii=False, separators=(",", ":")).encode()

    async def _calendar(self, request: web.Request) -> dict[str, Any]:
        params = Params(request.query).only("subject", "from", "to")
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
            params.text("filter", ""),
        )

    async def _list(self, _: web.Request, params: Params) -> dict[str, Any]:
        params.only("states", *_FILTERS, "filter", "limit", "cursor", "masks")
        masks = masks_of(params)
        page, cursor = await answered(self._queries.page(self._query(params), PAGE_BYTES_MAX, masks))
        return {"messages": await _messages(page, masks), "cursor": cursor or None}

    @staticmethod
    def _target(params: Params) -> DelayedTarget:
        return DelayedTarget(params.text("message_id"), params.text("subject", ""), params.moment_ms("due_ms", -1))

    async def _find(self, _: web.Request, params: Params) -> dict[str, Any]:
        params.only(*_TARGET, "masks")
        found = await answered(self._queries.find(self._target(params)))
        return {"messages": await _messages(found, masks_of(params))}

    async def _change(self, request: web.Request, params: Params) -> dict[str, Any]:
        operation = Operation(request.match_info["operation"])
        is_reschedule = operation is Operation.RESCHEDULE
        params.only(*_TARGET, *(("to",) if is_reschedule else ()))
        to_ms = params.moment_ms("to") if is_reschedule else -1
        change = ChangeDelayedRequest(operation, to_ms, (self._target(params),))
        (done,) = (await answered(self._changes.change(change))).changes
        return asdict(done)

    async def _cancel_matching(self, request: web.Request, params: Params) -> dict[str, Any]:
        params.only(*_FILTERS, "all", "dry_run", "limit", "cursor")
        request_of_page = self._query(params)
        filters = (request_of_page.match, request_of_page.from_ms > 0, request_of_page.to_ms < TIME_MAX_MS)
        if params.flag("all") == any(filters):
            what = "a bulk cancel requires a filter (match, from, to), or all to cancel every message of the subject"
            raise BadRequest(400, "parameter.missing", what)
        query = CancelDelayedRequest(request_of_page, params.flag("dry_run"))
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
