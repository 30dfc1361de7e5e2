"""What a connection to the sync port has to prove, what it is told without, and connections that prove nothing."""

import asyncio
from typing import Any

import pytest

from qmq.errors import AuthenticationFailed, ConnectionLost
from qmq.net.caller import Caller
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import Command, FollowResult, ResponseCode
from qmq.protocol.extensions import CLIENT_CONTEXT, AuthenticateRequest, AuthenticateResponse, Refusal
from qmq.protocol.replication import FollowResponse, ReadCopyRequest
from qmq_node.log.record import Position
from qmq_node.replication import slave_claim
from qmq_node.replication.master import listener as listener_module
from qmq_node.replication.slave_claim import SlaveClaim, prove
from qmq_node.server.connection_auth import authenticate
from tests.sim.leading.raw_slaves import raw, with_a_good_slave
from tests.sim.leading.scene import EPOCH, PROMOTION, SECRET, Scene, ScriptedSlave, leading
from tests.support.waiting import eventually_async

OTHER = "00000000-0000-0000-0000-000000000002"
CLAIM = SlaveClaim("g1", "a", EPOCH, PROMOTION)
READ = ReadCopyRequest("g1", "a", EPOCH, PROMOTION, 0, 0, 400)
STRANGERS_SECRET = NodeSecret.parse("s" * 32, "test")


def is_told_nothing(text: str) -> bool:
    """Whether a text is without promotion ID and epoch."""
    return PROMOTION not in text and "epoch" not in text


async def follow(caller: Caller, slave: ScriptedSlave, **changes: Any) -> FollowResponse:
    frame = await caller.call(Command.FOLLOW, slave.request(**changes).encode(), timeout_s=5)
    return FollowResponse.decode(frame.body)


async def refused_read(caller: Caller) -> Refusal:
    frame = await caller.call(Command.READ_COPY, READ.encode(), timeout_s=5)
    assert frame.code == ResponseCode.PARAM_ERROR
    return Refusal.decode(frame.body)


async def test_without_a_proof_nothing_is_read() -> None:
    async with with_a_good_slave() as (scene, _):
        scene.leading.checkpoints.save([b"state"], Position(300, 7), 300)
        caller = await raw(scene)
        refusal = await refused_read(caller)
        assert refusal.code == "copy.forbidden"
        assert is_told_nothing(refusal.message)
        answer = await follow(caller, scene.slave("a"))
        assert (answer.result, answer.session, answer.segments) == (FollowResult.UNPROVEN, 0, ())
        assert is_told_nothing(answer.reason)
        await eventually_async(lambda: caller.is_closed)
        assert scene.leading.counters.sessions == 1
        assert scene.leading.counters.rejected_follows == {}


@pytest.mark.parametrize(
    "changes",
    [{"node_id": "b"}, {"broker_group": "g2"}, {"epoch": EPOCH + 1}, {"promotion_id": OTHER}],
    ids=lambda changes: next(iter(changes)),
)
async def test_a_proof_holds_for_its_group_node_and_promotion_only(changes: dict[str, Any]) -> None:
    async with with_a_good_slave() as (scene, good):
        caller = await raw(scene)
        await prove(caller, SECRET, CLAIM)
        answer = await follow(caller, scene.slave("a"), **changes)
        assert answer.result is FollowResult.UNPROVEN
        assert is_told_nothing(answer.reason)
        assert good.is_connected
        assert scene.newer_epochs == []


@pytest.mark.parametrize(
    ("claim", "result"),
    [
        (SlaveClaim("g2", "a", EPOCH, PROMOTION), FollowResult.UNKNOWN_GROUP),
        (SlaveClaim("g1", "m", EPOCH, PROMOTION), FollowResult.NOT_MEMBER),
        (SlaveClaim("g1", "z", EPOCH, PROMOTION), FollowResult.NOT_MEMBER),
        (SlaveClaim("g1", "a", EPOCH - 1, PROMOTION), FollowResult.OLDER_EPOCH),
        (SlaveClaim("g1", "a", EPOCH, OTHER), FollowResult.OTHER_PROMOTION),
    ],
    ids=lambda value: value.name if isinstance(value, FollowResult) else "",
)
async def test_a_master_proves_itself_to_its_slaves_in_its_promotion_only(
    claim: SlaveClaim, result: FollowResult
) -> None:
    """Otherwise a program at the address of an earlier master could pass its proof on to a slave that is not up to date."""
    async with with_a_good_slave() as (scene, _):
        caller = await raw(scene)
        with pytest.raises(AuthenticationFailed, match=f": {result.name}: "):
            await prove(caller, SECRET, claim)
        await eventually_async(lambda: caller.is_closed)
        assert scene.leading.counters.rejected_follows == {result.name.lower(): 1}


@pytest.mark.parametrize(
    ("secret", "purpose", "why"),
    [
        (STRANGERS_SECRET, CLAIM.purpose, "the node secret does not match"),
        (STRANGERS_SECRET, "node", "the node secret does not match"),
        (SECRET, "node", "this port is for members of the broker group"),
        (SECRET, CLAIM.purpose + "\nx", "this port is for members of the broker group"),
        (SECRET, CLAIM.purpose + "x" * 300, "is unknown"),
    ],
)
async def test_other_proofs_are_refused(secret: NodeSecret, purpose: str, why: str) -> None:
    async with with_a_good_slave() as (scene, _):
        caller = await raw(scene)
        with pytest.raises(AuthenticationFailed, match=why) as caught:
            await authenticate(caller, secret, purpose, timeout_s=5)
        assert is_told_nothing(str(caught.value))
        await eventually_async(lambda: caller.is_closed)
        assert scene.listener.counters.bad_requests == {"unauthenticated": 1}


async def test_a_recorded_proof_is_not_accepted_again() -> None:
    async with with_a_good_slave() as (scene, _):
        nonce = bytes(32)

        async def ask(caller: Caller, proof: bytes = b"") -> AuthenticateResponse | None:
            body = AuthenticateRequest(CLAIM.purpose, nonce, proof).encode()
            frame = await caller.call(Command.AUTHENTICATE, body, timeout_s=5)
            return AuthenticateResponse.decode(frame.body) if frame.code == ResponseCode.SUCCESS else None

        caller, replayed = await raw(scene), await raw(scene)
        first = await ask(caller)
        assert first is not None
        proof = SECRET.sign(CLIENT_CONTEXT, first.nonce, nonce, CLAIM.purpose.encode())
        assert await ask(caller, proof) is not None
        assert await ask(replayed) is not None
        assert await ask(replayed, proof) is None
        await caller.close()


async def test_without_a_secret_slaves_prove_nothing_and_one_that_wants_a_proof_does_not_follow() -> None:
    async with leading(secret=None) as scene:
        slave = scene.slave("a")
        await slave.follow()
        await eventually_async(lambda: slave.in_sync)
        caller = await raw(scene)
        with pytest.raises(AuthenticationFailed, match="has no node secret"):
            await prove(caller, SECRET, CLAIM)


# --- connections that prove nothing ----------------------------------------------------------------------------------


def of_strangers(scene: Scene) -> int:
    return sum(connection not in scene.listener._proven for connection in scene.listener.server.connections)


async def test_a_connection_without_a_proof_is_closed_after_two_seconds() -> None:
    assert (slave_claim.PROOF_SECONDS, listener_module.CHECK_SECONDS) == (2.0, 0.5)
    async with with_a_good_slave() as (scene, _):
        silent = [await raw(scene) for _ in range(5)]
        await scene.wait(1.9)
        assert not any(caller.is_closed for caller in silent)
        await scene.wait(0.8)
        assert all(caller.is_closed for caller in silent)
        assert scene.listener.counters.bad_requests == {"no_proof": 5}


async def test_a_connection_that_proved_itself_has_longer_until_follow() -> None:
    assert listener_module.FOLLOW_SECONDS == 10.0
    async with with_a_good_slave() as (scene, _):
        caller = await raw(scene)
        await prove(caller, SECRET, CLAIM)
        await scene.wait(9.5)
        assert not caller.is_closed
        await scene.wait(1.2)
        assert caller.is_closed
        assert scene.listener.counters.bad_requests == {"no_follow": 1}


async def test_at_the_limit_the_oldest_connection_without_a_proof_makes_room() -> None:
    assert listener_module.CONNECTIONS_MAX == 128
    async with with_a_good_slave() as (scene, _):
        proven = await raw(scene)
        await prove(proven, SECRET, CLAIM)
        silent = [await raw(scene) for _ in range(126)]
        assert not any(caller.is_closed for caller in silent)
        further = [await raw(scene) for _ in range(3)]
        await eventually_async(lambda: sum(caller.is_closed for caller in silent) == 3)
        assert all(caller.is_closed for caller in silent[:3])
        assert not any(caller.is_closed for caller in (proven, *further))
        assert scene.listener.server.metrics.displaced == 3
        assert scene.listener.server.metrics.refused == 0
        assert (await follow(proven, scene.slave("a"))).result is FollowResult.ACCEPTED
        for caller in (proven, *silent, *further):
            await caller.close()


async def test_the_address_with_most_connections_makes_room() -> None:
    async with with_a_good_slave() as (scene, _):
        alone = await raw(scene)
        await eventually_async(lambda: of_strangers(scene) == 1)
        only = next(reversed(scene.listener.server.connections))
        only.peer = "10.0.0.9:1"
        silent = [await raw(scene) for _ in range(126)]
        further = [await raw(scene) for _ in range(20)]
        await eventually_async(lambda: scene.listener.server.metrics.displaced == 20)
        assert not alone.is_closed
        for caller in (alone, *silent, *further):
            await caller.close()


async def test_connections_that_proved_themselves_are_not_closed_for_another() -> None:
    async with with_a_good_slave() as (scene, _):
        proven = [await raw(scene) for _ in range(127)]
        for caller in proven:
            await prove(caller, SECRET, CLAIM)
        further = await raw(scene)
        await eventually_async(lambda: further.is_closed)
        assert scene.listener.server.metrics.refused == 1
        assert not any(caller.is_closed for caller in proven)
        for caller in proven:
            await caller.close()


async def test_a_slave_joins_while_a_stranger_opens_its_connections_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "CONNECTIONS_MAX", 32)
    async with leading(commits_before=5) as scene:
        good = await scene.following("b")

        async def reopen() -> None:
            """A connection that sends nothing, and is opened again when it is closed."""
            while True:
                caller, ended = Caller(*scene.listener.server.address), asyncio.Event()
                caller.on_lost = ended.set
                try:
                    await caller.connect()
                except ConnectionLost:
                    continue
                await ended.wait()
                await asyncio.sleep(0.005)

        strangers = [asyncio.create_task(reopen()) for _ in range(40)]
        try:
            await scene.wait(2.0)
            assert scene.listener.server.metrics.displaced > 1_000
            began = asyncio.get_running_loop().time()
            slave = scene.slave("a")
            while True:
                try:
                    await slave.follow()
                    break
                except (ConnectionLost, AuthenticationFailed):
                    await scene.wait(0.1)
            await eventually_async(lambda: slave.in_sync)
            assert asyncio.get_running_loop().time() - began < 3.0
            await scene.write()
            await eventually_async(lambda: good.has_all and slave.has_all)
            assert good.is_connected
            assert scene.leading.counters.ended_sessions == {}
        finally:
            for stranger in strangers:
                stranger.cancel()
            await asyncio.wait(strangers)
