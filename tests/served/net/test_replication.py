"""A master and a slave with real sockets, threads and disks."""

import asyncio
import logging
from pathlib import Path

from qmq.protocol.group_memberships import MembershipResult
from qmq.supervisor import Supervisor
from qmq_node.commits.applying import Applying
from qmq_node.commits.committer import Committer
from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.commit import FlushPolicy
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import inspect
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.master.listener import SyncListener
from qmq_node.replication.rules.membership import ChangeInSync, Membership
from qmq_node.replication.slave.follow_outcomes import FollowerIdentity
from qmq_node.replication.slave.follower import Follower
from tests.sim.replication.following import SECRET, Payloads
from tests.support.drivers.copies import assert_prefix, slave_copy_of
from tests.support.drivers.in_process import machine
from tests.support.drivers.logs import open_log
from tests.support.drivers.no_ranges import no_ranges
from tests.support.waiting import eventually_async

PROMOTION = "00000000-0000-4000-8000-000000000001"
MEMBERSHIP = Membership("g1", ("m", "a"), "m", ("m",), 1, 1, PROMOTION)
RECORDS = 3_000


async def test_a_slave_follows_over_real_sockets(tmp_path: Path) -> None:
    on = machine()
    failures: list[BaseException] = []
    supervisors = [
        Supervisor(on.clock, logger=logging.getLogger("test"), on_failure=lambda _, error: failures.append(error))
        for _ in range(2)
    ]
    log = open_log(on.disk, str(tmp_path / "m"), segment_bytes=1 << 20)
    committer = Committer(
        log, on.clock, lambda _: None, failures.append, supervisors[0], FlushPolicy.ALWAYS, 1.0, on.start_thread
    )
    committer.start()
    membership = MEMBERSHIP

    async def request(change: ChangeInSync, reason: str) -> tuple[MembershipResult, Membership]:
        nonlocal membership
        membership = change.applied_to(membership)
        return MembershipResult.DONE, membership

    leading = Leading(
        "m",
        MEMBERSHIP,
        log,
        committer,
        on.clock,
        supervisors[0],
        on.rng,
        request,
        CheckpointStore(on.disk, str(tmp_path / "checkpoint"), "test"),
        None,
        0,
        "0123456789abcdef",
        lambda epoch: failures.append(ValueError(epoch)),
    )
    leading.start()
    listener = SyncListener(
        "127.0.0.1",
        0,
        lambda: leading,
        no_ranges(on.clock),
        SECRET,
        clock=on.clock,
        supervisor=supervisors[0],
        listen=on.listen,
    )
    await listener.start()
    copy = SegmentedLog.activate(
        inspect(on.disk, str(tmp_path / "a"), visit=lambda _: None), segment_bytes=1 << 20, is_only_member=False
    )
    store = Payloads()
    follower = Follower(
        copy, slave_copy_of(copy, 1, PROMOTION, on.clock)[0], FollowerIdentity("g1", "a", "boot", SECRET, 1, PROMOTION, ""),
        Applying(copy, store), on.clock, supervisors[1], on.start_thread, failures.append,
    )  # fmt: skip
    host, port = listener.server.address
    following = asyncio.create_task(follower.run(f"{host}:{port}"))
    answered: list[int] = []
    try:
        for number in range(RECORDS):
            offset = log.gather.append(1, number.to_bytes(4, "big"), bytes(number % 5_000))
            committer.when_synced(offset, lambda number=number: answered.append(number))  # type: ignore[misc]
            if number % 50 == 0:
                await asyncio.sleep(0)
        await eventually_async(lambda: leading.master.accepts_sends, what="the slave is in sync")
        await eventually_async(lambda: len(answered) == RECORDS)
        await eventually_async(lambda: len(store.payloads) == RECORDS, what="everything is applied")
        await eventually_async(lambda: copy.written_end == log.written_end)
        assert answered == list(range(RECORDS))
        assert_prefix(copy, log)
        assert leading.counters.alarms == 0
        assert membership.in_sync == ("m", "a")
    finally:
        following.cancel()
        await asyncio.wait([following])
        await leading.close()
        await listener.close()
        await committer.stop()
        for supervisor in supervisors:
            await supervisor.close()
        log.close()
        copy.close()
    assert not failures
