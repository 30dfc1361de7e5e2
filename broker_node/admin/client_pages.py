"""The page of the clients of one broker: who sends to which subject, and who consumes it how."""

import asyncio
import heapq
from typing import Any

from aiohttp import web

from broker_node.admin.stats import encoded, encoded_page
from broker_node.admin.view import NodeView
from broker_node.delivery.client_table import ConsumerEntry, ProducerEntry
from broker_node.reads.filters import tag_filter
from qmq.protocol.codes import TagType
from qmq_node.admin.server import Params
from qmq_node.admin.shared_page import SharedPages
from qmq_node.slices import Pacer

CLIENTS_MAX = 2_000
"""Most clients of one answer, those with the highest rates."""
PACE_UNITS = 2_000
"""Clients that are checked in one iteration of the event loop."""
Row = tuple[float, int, dict[str, Any]]


class ClientPages:
    """Producers and consumers of one broker."""

    def __init__(self, view: NodeView) -> None:
        self._view = view
        self._pages = SharedPages(view.node.clock)
        self.routes = {"/clients": self._list}

    async def _list(self, request: web.Request) -> bytes:
        params = Params(request.query).only("subject", "limit")
        limit = min(params.whole("limit", CLIENTS_MAX, minimum=1), CLIENTS_MAX)
        subject = params.text("subject", "")
        return await self._pages.get((subject, limit), lambda: self._page(subject, limit))

    async def _page(self, subject: str, limit: int) -> bytes:
        clients, now = self._view.handlers.clients, self._view.node.clock.monotonic()
        pacer, found, count = Pacer(PACE_UNITS), list[Row](), 0
        for entry in clients.entries():
            await pacer.spend()
            name = entry.subject if isinstance(entry, ProducerEntry) else entry.key[0]
            if entry.connection.is_closed or (name != subject if subject else name.startswith("%")):
                continue
            count += 1
            rate = entry.rate.per_second(now)
            row = (rate or 0.0, count, {**_client(entry), "rate": rate})
            if len(found) < limit:
                heapq.heappush(found, row)
            else:
                heapq.heappushpop(found, row)
        head = {"at_ms": self._view.node.clock.wall_ms(), "left_out": count - len(found), "is_full": clients.is_full}
        rows = [row for _, _, row in sorted(found, reverse=True, key=lambda row: row[:2])]
        return await asyncio.to_thread(lambda: encoded_page("clients", [encoded(row) for row in rows], head))


def _client(entry: ProducerEntry | ConsumerEntry) -> dict[str, Any]:
    """A client without its rate."""
    shared = {"address": entry.connection.peer, "protocol": entry.protocol}
    if isinstance(entry, ProducerEntry):
        return {
            "role": "producer",
            "subject": entry.subject,
            "app": entry.app,
            "is_delayed": entry.is_delayed,
            **shared,
        }
    subject, group, consumer_id = entry.key
    tags = tag_filter(entry.filters)
    return {
        "role": "consumer",
        "subject": subject,
        "group": group,
        "client_id": consumer_id,
        "broadcast": entry.is_broadcast,
        "tags": sorted(tags.tags) if tags is not None else [],
        "all_tags": tags is not None and tags.tag_type == TagType.AND,
        **shared,
    }
