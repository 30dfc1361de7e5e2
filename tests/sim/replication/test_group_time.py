"""The time of a group on the wire: FOLLOW agrees on it, COMMITS have it, and peers that do not know of it are served as before."""

import asyncio
from dataclasses import replace

import pytest

from delay_node.group_clock import GroupClock
from qmq.protocol.replication import Commits, StatedTime, TimedCommits
from qmq.protocol.values import TIME_MS_MAX
from qmq_node.replication.master.leading import CHECK_SECONDS
from qmq_node.replication.master.sender import HEARTBEAT_SECONDS
from tests.sim.leading.scene import leading
from tests.sim.replication.following import EPOCH, PROMOTION, ScriptedMaster, following, following_again
from tests.sim.world.loop import running_loop
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import assert_prefix, commits_of, master_log
from tests.support.drivers.in_process import machine
from tests.support.waiting import eventually_async


class Recorded:
    """Records the times that a slave receives. As a master it states a time that is one second later at each call."""

    def __init__(self) -> None:
        self.statements = 0
        self.began = 0
        self.received: list[tuple[StatedTime, float]] = []

    def statement(self) -> StatedTime:
        self.statements += 1
        return StatedTime(self.statements * 1_000, self.statements)

    def session_began(self) -> None:
        self.began += 1

    def stated(self, time: StatedTime, received_at: float) -> None:
        self.received.append((time, received_at))


# --- the master -----------------------------------------------------------------------------------------------------


async def test_a_master_states_the_time_with_each_frame_if_the_slave_requested_it() -> None:
    time = Recorded()
    async with leading(group_time=time) as scene:
        slave, plain = scene.slave("a"), scene.slave("b")
        answers = await slave.follow(requests_time=True), await plain.follow()
        assert [answer.states_time for answer in answers] == [True, False]
        for _ in range(5):
            await scene.write()
        await scene.wait(10 * HEARTBEAT_SECONDS)
        await eventually_async(lambda: slave.has_all and plain.has_all)
        assert len(slave.times) == len(slave.heads) == time.statements
        assert [stated.time_ms for stated in slave.times] == [1_000 * (n + 1) for n in range(time.statements)]
        assert plain.times == []
        heartbeats = [head for head in slave.heads if head.offset == slave.end.offset]
        assert len(heartbeats) >= 10 * HEARTBEAT_SECONDS / (HEARTBEAT_SECONDS + CHECK_SECONDS) - 1
        slave.check_log()
        plain.check_log()


async def test_a_master_without_a_time_states_none_although_it_is_requested() -> None:
    async with leading() as scene:
        slave = scene.slave("a")
        assert not (await slave.follow(requests_time=True)).states_time
        await scene.write()
        await eventually_async(lambda: slave.has_all)
        assert slave.times == []


async def test_a_statement_is_of_the_moment_when_its_frame_is_sent() -> None:
    disk = MemoryDisk()
    disk.make_dir("clock")
    clock = GroupClock(machine().clock, disk, "clock")
    clock.open()
    async with leading(group_time=clock) as scene:
        slave = scene.slave("a")
        await slave.follow(requests_time=True)
        seen = len(slave.times)
        for _ in range(20):
            await scene.wait(0.1)
            for stated in slave.times[seen:]:
                assert 0 <= machine().clock.wall_ms() - stated.time_ms <= 150
                assert 0 <= machine().clock.monotonic() - stated.monotonic_us / 1_000_000 <= 0.15
            seen = len(slave.times)
        assert seen >= 3


# --- the slave ------------------------------------------------------------------------------------------------------


async def test_a_slave_takes_the_time_of_each_frame_with_the_moment_of_its_arrival() -> None:
    master, time = ScriptedMaster(master_log()), Recorded()
    master.time = StatedTime(5_000, 7)
    async with following(master, group_time=time):
        assert master.requests[0].requests_time
        for n, commits in enumerate(commits_of(master.log)):
            master.time = StatedTime(5_000 + n, n)
            master.send(commits)
            await asyncio.sleep(0.01)
        master.heartbeat(master.log.written_end, 0)
        await eventually_async(lambda: len(time.received) == n + 2)
        assert [stated.monotonic_us for stated, _ in time.received] == [*range(n + 1), n]
        moments = [received_at for _, received_at in time.received]
        assert moments == sorted(moments)
        assert running_loop().time() - moments[0] < 10
        assert time.began == 1
        assert time.statements == 0


async def test_a_slave_that_requests_no_times_gets_none() -> None:
    master = ScriptedMaster(master_log())
    async with following(master):
        assert not master.requests[0].requests_time


async def test_a_slave_follows_a_master_that_does_not_know_of_times() -> None:
    master, time = ScriptedMaster(master_log()), Recorded()
    async with following(master, group_time=time) as slave:
        assert master.requests[0].requests_time
        for commits in commits_of(master.log):
            master.send(commits)
        await eventually_async(lambda: slave.log.synced_end == master.log.written_end)
        assert_prefix(slave.log, master.log)
        assert time.received == []


async def test_each_session_agrees_anew() -> None:
    master, time = ScriptedMaster(master_log()), Recorded()
    master.time = StatedTime(5_000, 7)
    async with following(master, group_time=time) as slave:
        first = next(iter(commits_of(master.log)))
        master.send(first)
        await eventually_async(lambda: len(time.received) == 1)
        assert master.connection is not None
        master.time = None
        master.connection.abort()
        await following_again(master, slave)
        assert (time.began, len(time.received)) == (2, 1)


async def test_times_that_were_not_requested_end_the_session(caplog: pytest.LogCaptureFixture) -> None:
    master = ScriptedMaster(master_log())
    master.answer = lambda request, answer: replace(answer, states_time=True)
    async with following(master, waits=False) as slave:
        await eventually_async(lambda: len(master.requests) >= 2)
        assert "FollowResponse.states_time: the master states times that were not requested" in slave.follower.problem
        assert slave.log.written_end == 0
        master.answer = lambda request, answer: answer
        await eventually_async(lambda: bool(master.confirmed))


@pytest.mark.parametrize(
    ("time_ms", "monotonic_us", "why"),
    [
        (-1, 0, "StatedTime.time_ms: -1; must be 1 to"), (0, 0, "StatedTime.time_ms: 0; must be 1 to"),
        (TIME_MS_MAX + 1, 0, "must be 1 to"), (2**63 - 1, 0, "must be 1 to"),
        (1, -1, "StatedTime.monotonic_us: -1; must be 0 or more"),
    ],
)  # fmt: skip
async def test_a_time_that_makes_no_sense_ends_the_session_and_changes_nothing(
    time_ms: int, monotonic_us: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    master, time = ScriptedMaster(master_log()), Recorded()
    master.time = StatedTime(5_000, 7)
    async with following(master, group_time=time) as slave:
        first = next(iter(commits_of(master.log)))
        heartbeat = Commits(master.session, EPOCH, PROMOTION, 0, 0, 0, 0, 0, -1, b"", b"").encode()
        numbers = b"".join(number.to_bytes(8, "big", signed=True) for number in (time_ms, monotonic_us))
        master.push_body(numbers + heartbeat)
        await following_again(master, slave)
        assert why in caplog.text
        assert slave.follower.counters.rejected_commits == 1
        assert {stated for stated, _ in time.received} == {master.time}
        assert first.offset == 0


async def test_the_time_of_commits_that_do_not_fit_does_not_count() -> None:
    master, time = ScriptedMaster(master_log()), Recorded()
    master.time = StatedTime(5_000, 7)
    async with following(master, group_time=time) as slave:
        old = Commits(master.session, EPOCH - 1, PROMOTION, 0, 0, 0, 0, 0, -1, b"", b"")
        master.push_body(TimedCommits(StatedTime(TIME_MS_MAX, 0), old).encode())
        await following_again(master, slave)
        assert {stated for stated, _ in time.received} == {master.time}


async def test_commits_without_the_time_that_was_agreed_on_end_the_session() -> None:
    master, time = ScriptedMaster(master_log()), Recorded()
    master.time = StatedTime(5_000, 7)
    async with following(master, group_time=time) as slave:
        master.push_body(Commits(master.session, EPOCH, PROMOTION, 0, 0, 0, 0, 0, -1, b"", b"").encode())
        await following_again(master, slave)
        assert slave.follower.counters.rejected_commits == 1
