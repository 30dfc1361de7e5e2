"""Commits of a replicated log are shared by clients that wait for responses, and do not wait for clients that don't."""

import asyncio

import pytest

from tests.sim.leading.scene import leading, membership
from tests.support.waiting import eventually_async

REQUESTS = 200
"""Of each client."""


@pytest.mark.parametrize("sync_seconds", [0.0003, 0.002])
@pytest.mark.parametrize("clients", [2, 4, 16])
async def test_clients_that_send_when_they_were_answered_share_their_commits(clients: int, sync_seconds: float) -> None:
    async with leading(membership("m", "a"), secret=None) as scene:
        slave = await scene.following("a")
        slave.sync_seconds = sync_seconds
        loop, before = asyncio.get_running_loop(), scene.committer.commits

        def request(rest: int) -> None:
            scene.append()
            if rest:
                offset = scene.log.gather.appended_end - 1
                scene.committer.when_synced(offset, lambda: loop.call_later(0.0001, request, rest - 1) and None)

        for number in range(clients):
            # They begin apart: without a wait each would stay in a commit with those that began with it.
            loop.call_later(0.0003 * number, request, REQUESTS - 1)
        await eventually_async(lambda: len(scene.answered) == clients * REQUESTS)
        assert scene.committer.commits - before <= 1.25 * REQUESTS


async def test_commits_wait_seldom_for_clients_that_do_not_wait_for_responses() -> None:
    async with leading(membership("m", "a")) as scene:
        await scene.following("a")
        before = scene.committer.commits
        for _ in range(1_000):
            scene.append()
            await scene.wait(0.0002)
        await eventually_async(lambda: len(scene.answered) == scene.sent)
        # Without any wait there are 152: as many as follow each other in this time.
        assert scene.committer.commits - before >= 140
