"""Admin pages that a test answers."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client.core import GaugeMetricFamily, Metric

from qmq.net.node_secret import NodeSecret
from qmq.supervisor import Supervisor
from qmq_node.admin.auth import AdminAccess
from qmq_node.admin.http_guard import HttpLimits
from qmq_node.admin.server import AdminHttp, AdminPages, Params
from tests.support.manual_clock import ManualClock

PAGE_BYTES = 8 << 20


class Pages:
    """What the server under test answers."""

    def __init__(self) -> None:
        self.metrics_built = 0
        self.changes: list[Any] = []

    async def metrics(self) -> list[Metric]:
        self.metrics_built += 1
        await asyncio.sleep(0)
        return [GaugeMetricFamily("qmq_test", "A number", value=self.metrics_built)]

    async def large(self, _: web.Request) -> bytes:
        return b" " * PAGE_BYTES

    async def change(self, _: web.Request, params: Params) -> dict[str, str]:
        self.changes.append(params.text("name"))
        return {}


@asynccontextmanager
async def serving(
    pages: Pages, clock: ManualClock, secret: NodeSecret | None = None, **limits: Any
) -> AsyncIterator[AdminHttp]:
    supervisor = Supervisor(clock, logger=logging.getLogger("test"), on_failure=lambda name, error: None)
    server = AdminHttp(
        "127.0.0.1",
        0,
        health=lambda: "",
        ready=lambda: "",
        metrics=pages.metrics,
        pages=AdminPages({"/large": pages.large}, {"/change": pages.change}),
        supervisor=supervisor,
        access=AdminAccess(clock, secret),
        clock=clock,
        limits=HttpLimits(**limits),
    )
    await server.start()
    try:
        yield server
    finally:
        await server.close()
        await supervisor.close()
