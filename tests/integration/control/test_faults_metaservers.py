"""F32: no metaserver at all for 30 s. A start without the database is in test_faults_database.py."""

import asyncio
import time
from pathlib import Path

from tests.support.faults import Api, States, during, figure, goes_on, judges_again, load, running_plane
from tests.support.services import RedisServer

AWAY_SECONDS = 30.0


async def test_f32_running_clients_do_not_notice_that_no_metaserver_is_there(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    with running_plane(tmp_path, redis_server.url) as plane:
        states, api = States(plane), Api(plane)
        async with load(plane, "orders", "payments") as traffic:
            plane.system.meta.kill()
            await during(AWAY_SECONDS, lambda: api.ask("GET", "/broker-groups/"))
            assert api.statuses == {200}
            await goes_on(traffic)
            # Clients keep routes in memory only: one that starts now has to wait for a metaserver.
            newcomer = plane.system.qmq_soon("produce", "orders-later", "-p", "value=1")
            began = time.monotonic()
            await asyncio.to_thread(plane.system.meta.start)
            figure("F32 metaserver killed and started: it serves", time.monotonic() - began)
            code, output = await asyncio.to_thread(newcomer.finish, 30)
            assert code == 0, output
            took = await judges_again(plane)
            figure("F32 metaserver started: the heartbeats loop judges again", took)
        assert states.changes() == []
