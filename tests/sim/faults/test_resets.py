"""F21: a connection is reset when a request or an answer is about to arrive, at every step of the protocol."""

import asyncio

import pytest

from qmq import Timeouts
from tests.sim.faults.scenario import Scenario, running

PARTS = 8
PIECES = 96
"""More requests, and more answers, than the exchange below has."""
SERVERS = ("meta", "g1", "d1")


async def exchange(scenario: Scenario, reset_at: int, direction: str) -> int:
    """A producer, a delayed producer and a consumer exchange messages; one request or answer is replaced by a reset.

    Returns how many of them arrived or were reset.
    """
    pieces = 0

    def arriving(source: str, target: str) -> bool:
        nonlocal pieces
        server, client = (source, target) if direction == "answers" else (target, source)
        # The delay node is a client of brokers, and all nodes are clients of the metaserver.
        if server not in SERVERS or (server, client) in (("g1", "meta"), ("d1", "meta"), ("d1", "g1")):
            return False
        pieces += 1
        return pieces - 1 == reset_at

    scenario.cluster.network.resets = arriving
    timeouts = Timeouts(send=1.0, ack=1.0, delivery=20.0)
    scenario.add_consumer("c1")
    scenario.add_producer("p1", every=0.2, timeouts=timeouts)
    scenario.add_producer("p2", delay=0.3, every=0.2, timeouts=timeouts)
    await asyncio.sleep(1.0)
    scenario.cluster.network.resets = None
    return pieces


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["requests", "answers"])
@pytest.mark.parametrize("part", range(PARTS))
def test_f21_no_reset_loses_a_message_or_makes_one_up(part: int, direction: str, run_world) -> None:  # type: ignore[no-untyped-def]
    counts = []
    for reset_at in range(part, PIECES, PARTS):

        async def one(at: int = reset_at) -> None:
            async with running(brokers=1) as scenario:
                counts.append(await exchange(scenario, at, direction))
                # What a broker stored and could not confirm, and what it delivered and got no ack of, arrives again.
                await scenario.settle(may_repeat={send.value for send in scenario.sends}, quiet_seconds=0.5)
                assert not scenario.failed()

        run_world(one)
    assert max(counts) <= PIECES, "each is reset in some run"
