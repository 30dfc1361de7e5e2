"""A program at the address of a master that is gone: a slave in sync keeps its log, and joins the next master."""

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from broker_node.broker import Broker
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import Command, FollowResult, ReplicaRole, ResponseCode
from qmq.protocol.extensions import AuthenticateRequest, AuthenticateResponse
from qmq.protocol.frames import FLAG_ONE_WAY, Frame, encode_request
from qmq.protocol.replication import Commits, FollowRequest, FollowResponse
from qmq_node.replication.slave.follow_retries import KEPT_SECONDS
from qmq_node.replication.slave_claim import PROOF_SECONDS
from qmq_node.server.connection import Connection
from qmq_node.server.connection_auth import ConnectionAuth
from qmq_node.server.server import FrameServer
from tests.sim.replication.pair import FIRST_PORT, Members, client_of, in_sync, members, send, stored
from tests.sim.world.cluster import SYNC_SECRET
from tests.sim.world.loop import running_loop
from tests.support.drivers.copies import changed, commits_of, header_of
from tests.support.drivers.in_process import machine
from tests.support.source_change import SourceChange
from tests.support.waiting import eventually_async

SYNC_PORT = FIRST_PORT + 2
"""Of g1-a."""
FORGED_SECONDS = 8.0
"""How long the program answers: several sessions."""
REJECTIONS = [result for result in FollowResult if result is not FollowResult.ACCEPTED]

Answer = Callable[[FollowRequest], FollowResponse]


class ForgedMaster:
    """Listens at the sync address of g1-a, and answers as told.

    Args:
        knows_secret: whether it proves itself, as only a member can. Otherwise it accepts each proof, with one that it made up.
    """

    def __init__(self, answer: Answer, *, knows_secret: bool) -> None:
        self._answer = answer
        self._secret = NodeSecret.parse(SYNC_SECRET, "test") if knows_secret else None
        self._auth = ConnectionAuth(self._secret, check=lambda connection, purpose: "")
        self.commands: list[int] = []
        self.follows: list[FollowRequest] = []
        self.on_session: Callable[[Connection, FollowRequest], None] = lambda connection, request: None
        on = machine()
        self.server = FrameServer("127.0.0.1", SYNC_PORT, self._handle, clock=on.clock, listen=on.listen)

    def _handle(self, connection: Connection, frame: Frame) -> None:
        self.commands.append(frame.code)
        if frame.code == Command.AUTHENTICATE and self._secret is not None:
            self._auth.handle(connection, frame)
        elif frame.code == Command.AUTHENTICATE:
            request = AuthenticateRequest.decode(frame.body)
            proof = secrets.token_bytes(32) if request.proof else b""
            connection.reply(frame, ResponseCode.SUCCESS, AuthenticateResponse(request.nonce, proof).encode())
        elif frame.code == Command.FOLLOW:
            follow = FollowRequest.decode(frame.body)
            self.follows.append(follow)
            connection.reply(frame, ResponseCode.SUCCESS, self._answer(follow).encode())
            self.on_session(connection, follow)


def rejecting(result: FollowResult) -> Answer:
    return lambda request: FollowResponse.rejection(result, "forged")


def accepting(**changes: object) -> Answer:
    """Accept a slave where its log ends, with some fields changed."""

    def answer(request: FollowRequest) -> FollowResponse:
        plain = FollowResponse(FollowResult.ACCEPTED, "", 7, request.end, request.crc, 0, request.end, ((0, 64 << 20),))
        return replace(plain, **changes)  # type: ignore[arg-type]

    return answer


@asynccontextmanager
async def master_gone(*, minimum: int = 1) -> AsyncIterator[tuple[Members, list[str]]]:
    """Slave g1-b is in sync, and its master g1-a is gone. At the end g1-a returns, is promoted, and both have all messages."""
    async with members(running_loop(), in_sync_min=minimum) as group:
        await group.promote("g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await client.begin()
            await in_sync(group, "g1-a", "g1-b")
            sent = await send(client, range(20))
        await group.all_equal()
        group.hosts["g1-a"].kill()
        yield group, sent
        group.membership.value = replace(group.membership.value, in_sync=("g1-a", "g1-b"))
        await group.start("g1-a")
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        async with client_of(group.broker("g1-a")) as client:
            sent += await send(client, range(20, 25))
            assert await stored(client) == sent
        await group.all_equal()


@asynccontextmanager
async def forged(answer: Answer, *, knows_secret: bool) -> AsyncIterator[ForgedMaster]:
    master = ForgedMaster(answer, knows_secret=knows_secret)
    await master.server.start()
    try:
        yield master
    finally:
        await master.server.close(0)


@asynccontextmanager
async def log_stays(slave: Broker) -> AsyncIterator[None]:
    """The slave has the same log and the same life afterwards, and has not given up."""
    end, files = slave.log.written_end, slave.disk.list_dir(slave.data.log_folder)
    yield
    assert slave.failure.is_set is False
    assert (slave.log.written_end, slave.disk.list_dir(slave.data.log_folder)) == (end, files)
    assert slave.folder.replica.state.copying is None
    assert slave.replication.member.role is ReplicaRole.IN_SYNC


@pytest.mark.parametrize("result", FollowResult, ids=lambda result: result.name)
async def test_a_program_without_the_secret_learns_nothing_and_changes_nothing(result: FollowResult) -> None:
    answer = accepting(keep_to=0, keep_to_crc=0) if result is FollowResult.ACCEPTED else rejecting(result)
    async with master_gone() as (group, _):
        slave = group.broker("g1-b")
        async with log_stays(slave), forged(answer, knows_secret=False) as master:
            await asyncio.sleep(FORGED_SECONDS)
            assert len(master.commands) > 2
            assert set(master.commands) == {Command.AUTHENTICATE}, "it sent no FOLLOW, and asked for no state"
            assert "does not have the node secret" in slave.replication.member.follower.problem


@pytest.mark.parametrize("result", REJECTIONS, ids=lambda result: result.name)
async def test_no_answer_of_a_peer_takes_its_log_from_a_slave_in_sync(result: FollowResult) -> None:
    async with master_gone() as (group, _):
        slave = group.broker("g1-b")
        async with log_stays(slave), forged(rejecting(result), knows_secret=True) as master:
            await asyncio.sleep(FORGED_SECONDS)
            assert len(master.follows) > 1


@pytest.mark.parametrize(
    "changes",
    [
        {"keep_to": 0, "keep_to_crc": 0},
        {"keep_to_crc": 7},
        {"high_watermark": 1 << 40},
    ],
    ids=lambda changes: ", ".join(changes),
)
async def test_no_session_takes_its_log_from_a_slave_in_sync(changes: dict[str, int]) -> None:
    async with master_gone() as (group, _):
        slave = group.broker("g1-b")
        async with log_stays(slave), forged(accepting(**changes), knows_secret=True) as master:
            await asyncio.sleep(FORGED_SECONDS)
            assert master.follows


@pytest.mark.parametrize("why", ["crc", "chain"])
async def test_forged_commits_end_the_session_only(why: str, caplog: pytest.LogCaptureFixture) -> None:
    async with master_gone() as (group, _):
        slave = group.broker("g1-b")
        end = slave.log.written_end
        own = list(commits_of(slave.log))[-1]
        forged_one = changed(own, offset=end, previous_crc=header_of(own).crc if why == "crc" else 7)
        data = bytearray(forged_one.data)
        if why == "crc":
            data[-1] ^= 1

        def send_commits(connection: Connection, request: FollowRequest) -> None:
            body = Commits(7, request.epoch, request.promotion_id, 0, 0, end, 0, 0, -1, b"", bytes(data)).encode()
            connection.push(encode_request(Command.COMMITS, 0, body, flag=FLAG_ONE_WAY))

        segments = tuple((info.base, info.bytes) for info in slave.log.stored.segments())
        async with log_stays(slave), forged(accepting(segments=segments), knows_secret=True) as master:
            master.on_session = send_commits
            await asyncio.sleep(FORGED_SECONDS)
            assert len(master.follows) > 1
            assert slave.replication.member.follower.counters.rejected_commits > 1
            assert f"rejected by its {'CRC' if why == 'crc' else 'chain'}" in caplog.text
            assert caplog.text.count("commits of the master were rejected") == 1, "not for each session"


async def test_an_alarm_between_other_answers_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    results = itertools.cycle([FollowResult.OTHER_PROMOTION, FollowResult.END_BEYOND, FollowResult.BUSY])
    async with master_gone() as (group, _):
        slave = group.broker("g1-b")
        numbers = itertools.count()

        def answer(request: FollowRequest) -> FollowResponse:
            return FollowResponse.rejection(next(results), f"forged {next(numbers)}")

        async with log_stays(slave), forged(answer, knows_secret=True) as master:
            await asyncio.sleep(FORGED_SECONDS)
            assert len(master.follows) > 6
        kept = [text for record in caplog.records if "this log stays as it is" in (text := record.getMessage())]
        assert ["OTHER_PROMOTION" in text for text in kept] == [True, False], "each once, and not for each answer"


async def test_an_alarm_counts_once_the_membership_confirms_that_the_slave_depends_on_the_master() -> None:
    async with members(running_loop(), in_sync_min=1) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        group.hosts["g1-a"].kill()
        slave = group.broker("g1-b")
        async with forged(rejecting(FollowResult.CRC_DIFFERS), knows_secret=True):
            await asyncio.sleep(FORGED_SECONDS)
            assert slave.replication.member.follower is not None, "it has not given up"
            group.membership.value = group.membership.value.with_in_sync(frozenset({"g1-a"}))
            await eventually_async(lambda: slave.replication.member.role is ReplicaRole.FAILED, KEPT_SECONDS[-1] + 2)
            assert slave.replication.member.reason == "the master rejects this slave: CRC_DIFFERS: forged"


async def test_a_log_is_replaced_when_the_membership_and_the_master_s_state_agree() -> None:
    async with master_gone() as (group, _):
        slave = group.broker("g1-b")
        end = slave.log.written_end
        async with forged(rejecting(FollowResult.TOO_FAR_BEHIND), knows_secret=True) as master:
            group.membership.value = group.membership.value.with_in_sync(frozenset({"g1-a"}))
            await eventually_async(lambda: Command.READ_COPY in master.commands, KEPT_SECONDS[-1] + 2)
            await asyncio.sleep(2 * PROOF_SECONDS)
            assert (slave.log.written_end, slave.folder.replica.state.copying) == (end, None)
            assert "it copies the log when the master's state can be read" in slave.replication.member.reason


# --- breakages -------------------------------------------------------------------------------------------------------


def keeps(result: FollowResult) -> Callable[[], Awaitable[None]]:
    return lambda: test_no_answer_of_a_peer_takes_its_log_from_a_slave_in_sync(result)


BREAKAGES = (
    (
        SourceChange(
            "a slave in sync believes its master",
            "qmq_node.member.role:_why_kept",
            "node_id in membership.in_sync or not address",
            "not address",
        ),
        keeps(FollowResult.TOO_FAR_BEHIND),
    ),
    (
        SourceChange(
            "an alarm counts whatever the membership says",
            "qmq_node.replication.slave.follow_retries:FollowRetries.problem_of",
            "(kept := self.why_kept())",
            '(kept := "")',
        ),
        keeps(FollowResult.END_BEYOND),
    ),
    (
        SourceChange(
            "a slave in sync copies when its master says that it lacks much",
            "qmq_node.replication.slave.slave_copy:SlaveCopy.must_begin",
            " and not self.why_kept()",
            "",
        ),
        lambda: test_no_session_takes_its_log_from_a_slave_in_sync({"high_watermark": 1 << 40}),
    ),
    (
        SourceChange(
            "a slave follows a master that has proved nothing",
            "qmq_node.replication.slave_claim:prove",
            "if secret is not None:",
            "if False:",
        ),
        lambda: test_a_program_without_the_secret_learns_nothing_and_changes_nothing(FollowResult.BUSY),
    ),
)


@pytest.mark.parametrize(("change", "test"), BREAKAGES, ids=lambda value: getattr(value, "name", ""))
async def test_each_breakage_is_noticed(change: SourceChange, test: Callable[[], Awaitable[None]]) -> None:
    with change.applied(), pytest.raises(AssertionError):
        await test()
