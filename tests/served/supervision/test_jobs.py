"""An exception in each job of each process, one at a time: the others run on and it is reported, or the process ends.

The jobs are read from the processes and from the source and compared with the tables here, so a new job needs a line in a
table, and gets its test by it.
"""

import ast
import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest

import qmq_node.daemon.daemon
from broker_node.admin.group_pages import wait_until_durable
from broker_node.broker import Broker
from broker_node.delivery.retry_writer import BATCH_MESSAGES_MAX
from broker_node.reads.message_reader import ReadPlan, Wanted
from delay_node.delay_node import DelayNode
from metaserver.server import Metaserver
from qmq.errors import CommitNotApplied, ConnectionLost, CriticalTaskFailed, LogError
from qmq.net.caller import Caller
from qmq.protocol.bulk_read import ListRangesRequest
from qmq.protocol.codes import BrokerGroupState, BrokerRequestType, Command, ResponseCode
from qmq.protocol.commands import AckRequest, PullRequest
from qmq.protocol.delayed import DelayedTarget, FindDelayedRequest
from qmq.protocol.extensions import KnownGroupsRequest, LeaveGroupRequest, NodeRegisterRequest, NodeRegisterResponse
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq.supervisor import JobKind
from qmq_node.admin.server import BadRequest
from qmq_node.node.node import Node
from qmq_node.process.runner import run_until_signal
from qmq_node.server.connection import Connection
from tests.served.supervision.jobs import LEADING
from tests.support.drivers.breaking import BreakingSupervisor
from tests.support.drivers.in_process import (
    Client,
    SmallSystem,
    connected,
    delayed,
    message,
    now_ms,
    run_jobs,
    running_broker,
    small_system,
)
from tests.support.drivers.metaserver_peers import peer
from tests.support.servers.processes import PROJECT
from tests.support.waiting import eventually_async

_numbers = itertools.count()

Process = Broker | DelayNode | Metaserver

SERVED = ("connection_deadlines", "admin_deadlines")
NODE = (*SERVED, "segment_preparation", "disk_space", "write_watch", "checkpoint", "hand_over", "repairs", "scrub")
PERIODIC = {
    "broker": (
        *NODE, "rates", "retention", "retention_clock", "subject_retention", "history_retention", "subject_removal",
        "consumer_leases", "long_poll_deadlines", "known_groups", "replication_connections", "slave_retention",
    ),
    "broker flushing by interval": (
        *NODE, "rates", "retention", "retention_clock", "subject_retention", "history_retention", "subject_removal",
        "consumer_leases", "long_poll_deadlines", "interval_sync",
    ),
    "delay": (
        *NODE, "hour_loading", "hour_closing", "hour_damage", "clock", "clock_file", "lateness", "retention", "rates",
        "replication_connections", "slave_retention",
    ),
    "metaserver": (*SERVED, "leases", "reload", "route_file"),
}  # fmt: skip
"""Every periodic job, by process."""
MAIN = {"garbage"}
"""Started by the main function, and not where a node runs inside another process."""
REPLICATION = {
    "every": {"master_silence"},
    "critical": {"applying"},
    "one_shot": {"following", "promotion", "switch_over_checkpoint"},
}
"""Of members of larger groups: tests/sim/replication runs them."""
CRITICAL = {
    "broker": ("metaservers", "member"),
    "broker flushing by interval": ("member",),
    "delay": ("metaservers", "member", "meta_session", "delivery"),
    "metaserver": ("write_behind",),
}
"""Every task that ends its process when it ends."""
VITAL = {"disk_space", "hour_loading", "clock", "leases"}
"""Periodic jobs whose failure makes a process unfit: /readyz answers 503."""


@pytest.fixture(autouse=True)
def breaking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qmq_node.daemon.daemon, "Supervisor", BreakingSupervisor)


@asynccontextmanager
async def running(kind: str, folder: Path) -> AsyncIterator[Process]:
    if kind == "broker flushing by interval":
        async with running_broker(folder, flush="interval") as broker:
            await run_jobs(broker)
            yield broker
        return
    async with small_system(folder) as system:
        process = one_of(system, kind)
        await run_jobs(process)
        yield process


def one_of(system: SmallSystem, kind: str) -> Process:
    return {"broker": system.brokers["g1"], "delay": system.delay, "metaserver": system.meta}[kind]


def supervisor_of(process: Process) -> BreakingSupervisor:
    assert isinstance(process.supervisor, BreakingSupervisor)
    return process.supervisor


async def page(process: Process, path: str) -> tuple[int, str]:
    host, port = process.admin.address
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}{path}") as answer:
        return answer.status, await answer.text()


async def reported(process: Process, name: str) -> tuple[int, int]:
    """Statuses of /healthz and /readyz of a process that reports this job, and no other, as failing."""
    status, health = await page(process, "/healthz")
    assert list(process.supervisor.failing()) == [name]
    assert f'"failing_jobs": {{"{name}": "' in health
    # Not by HTTP, where a page answers requests for some time.
    metrics = (await process.admin.metrics_text()).decode()
    failures = re.search(rf'^qmq_job_failures_total{{job="{name}"}} (.+)$', metrics, re.MULTILINE)
    assert failures is not None
    assert float(failures[1]) >= 1
    return status, (await page(process, "/readyz"))[0]


async def serves(process: Process) -> None:
    """The process does its work."""
    process.failure.check()
    if isinstance(process, Metaserver):
        async with aiohttp.ClientSession() as session:
            host, port = process.admin.address
            async with session.get(f"http://{host}:{port}/meta/cluster") as answer:
                assert answer.status == 200
        return
    async with connected(process) as client:
        if isinstance(process, Broker):
            group = f"g{next(_numbers)}"
            assert await client.send(message(1)) == {}
            assert await client.begin(group=group) == ResponseCode.SUCCESS
            assert len((await client.pull(group=group, limit=1))[1]) == 1
        else:
            assert await client.send(delayed(1, now_ms() + 3_600_000)) == {}


def runs(process: Process) -> dict[str, int]:
    return {job.name: job.runs for job in process.supervisor.status() if job.kind is JobKind.PERIODIC}


# --- periodic jobs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PERIODIC)
async def test_the_tables_list_every_job_of_a_running_process(tmp_path: Path, kind: str) -> None:
    async with running(kind, tmp_path) as process:
        found = {(job.name, job.kind, job.is_vital) for job in process.supervisor.status()}
        periodic = {(name, JobKind.PERIODIC, name in VITAL) for name in PERIODIC[kind]}
        critical = {(name, JobKind.CRITICAL, True) for name in CRITICAL[kind]}
        assert {entry for entry in found if entry[1] is not JobKind.ONE_SHOT} == periodic | critical
        assert {entry[0] for entry in found if entry[1] is JobKind.ONE_SHOT} <= set(ONE_SHOTS)


@pytest.mark.parametrize("kind", PERIODIC)
async def test_a_periodic_job_that_fails_is_reported_and_everything_else_runs_on(tmp_path: Path, kind: str) -> None:
    async with running(kind, tmp_path) as process:
        supervisor = supervisor_of(process)
        for name in PERIODIC[kind]:
            before = runs(process)
            supervisor.break_job(name)
            await run_jobs(process)
            await run_jobs(process)
            assert all(count >= before[job] + 2 for job, count in runs(process).items()), name
            assert await reported(process, name) == (200, 503 if name in VITAL else 200), name
            await serves(process)
            supervisor.repair_job(name)
            await run_jobs(process)
            assert supervisor.failing() == {}, name
            assert (await page(process, "/healthz"), await page(process, "/readyz")) == (
                (200, '{"status": "ok"}'),
                (200, '{"status": "ok"}'),
            )


# --- tasks that end the process -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in CRITICAL.items() for name in names])
async def test_a_critical_task_that_fails_ends_the_process_with_a_message(
    tmp_path: Path, kind: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(kind, tmp_path) as process:
        supervisor_of(process).break_job(name)
        with pytest.raises(CriticalTaskFailed, match=f"task '{name}' failed: Injected: {name} is broken"):
            await process.serve(asyncio.Event())
    assert f"task '{name}' failed" in caplog.text


@pytest.mark.parametrize("kind", ["broker", "delay"])
async def test_a_commit_that_can_not_be_applied_ends_the_node_and_nothing_is_answered_after_it(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(kind, tmp_path) as node:
        assert isinstance(node, Node)
        async with connected(node) as client:
            await serves(node)
            monkeypatch.setattr(node.storage, "on_synced", [_raise])
            answered: list[int] = []
            node.committer.when_synced(1 << 60, lambda: answered.append(1))
            waiting = asyncio.create_task(node.committer.synced(1 << 60))
            with pytest.raises(ConnectionLost):
                await client.send(delayed(2, now_ms() + 3_600_000) if kind == "delay" else message(2))
            with pytest.raises(CommitNotApplied, match="is on disk and could not be applied: ValueError: odd"):
                await node.serve(asyncio.Event())
            node.committer.when_synced(-1, lambda: answered.append(2))
            assert answered == []
            for synced in (waiting, node.committer.synced(-1)):
                with pytest.raises(LogError, match="the message log has failed: the commit at log offset"):
                    await synced
            if isinstance(node, Broker):
                with pytest.raises(BadRequest, match="the change may have been made") as unknown:
                    await wait_until_durable(node.committer.synced, -1)
                assert (unknown.value.status, unknown.value.code) == (503, "change.unknown")
            assert (await page(node, "/healthz"))[0] == 503


def _raise(*_: object) -> None:
    raise ValueError("odd")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            CriticalTaskFailed("task 'delivery' failed: KeyError: 3"),
            "the process ends: task 'delivery' failed: KeyError: 3",
        ),
        (ValueError("odd"), "the process ends: ValueError: odd"),
    ],
)
def test_a_process_that_can_not_continue_ends_with_a_message_and_a_code(
    error: Exception, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(*_: object) -> None:
        raise error

    assert run_until_signal(main) == 1
    assert [record.getMessage() for record in caplog.records] == [line]


# --- one-shots ------------------------------------------------------------------------------------------------------

OneShot = Callable[[Process, BreakingSupervisor, pytest.MonkeyPatch], Awaitable[None]]


async def _open_connection(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    supervisor.break_job("connection_setup")
    assert isinstance(process, Node)
    reader, writer = await asyncio.open_connection(*process.server.address)
    try:
        assert await reader.read() == b""
    finally:
        writer.close()
    assert not process.server.connections


async def _close_connection(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Node)
    supervisor.break_job("connection_closed")
    async with connected(process) as client:
        await client.pull(group="gone")


async def _fail_a_request(process: Process, _: BreakingSupervisor, patch: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Broker)
    patch.setattr(process.delivery.acks, "ack", _raise)
    async with connected(process) as client:
        assert (await client.raw(Command.ACK_REQUEST, AckRequest("s", "g", "c", 0, 0, False).encode())).code == (
            ResponseCode.BROKER_ERROR
        )
    assert process.server.metrics.handler_errors == 1


async def _fail_an_answer(process: Process, _: BreakingSupervisor, __: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Broker)
    async with connected(process) as client:
        process.committer.when_synced(process.log.written_end, _raise)
        # The answers behind it are sent.
        assert await client.send(message(7)) == {}


async def _work_during_a_commit(process: Process, _: BreakingSupervisor, __: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Broker)
    async with connected(process) as client:
        process.committer.during_sync(_raise)
        assert await client.send(message(7)) == {}


async def _seal(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    supervisor.break_job("idle_seal")
    await serves(process)


async def _gather(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Node)
    supervisor.break_job("gathered_commit")
    process.committer.when_synced(process.log.gather.appended_end, lambda: None, is_urgent=False)


async def _fail_a_heartbeat(process: Process, _: BreakingSupervisor, patch: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Node)
    assert process.registration.metaservers is not None
    patch.setattr(process.registration.metaservers, "describe", _raise)
    process.registration.metaservers.soon()


async def _fetch_a_policy(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Node)
    assert process.registration.metaservers is not None
    await eventually_async(lambda: process.policy.version)
    policies = process.registration.metaservers.policies
    await eventually_async(lambda: policies._fetching is None)
    supervisor.break_job("policy_fetch")
    request = process.registration.request(BrokerRequestType.HEARTBEAT)
    policies.check(process.registration.metaservers.sessions[0].caller, request, "another")


async def _read_in_bulk(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Node)
    supervisor.break_job("bulk_read")
    async with connected(process) as client:
        assert (await client.raw(Command.LIST_RANGES, ListRangesRequest().encode())).code == ResponseCode.BROKER_ERROR


async def _join_a_group(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Metaserver)
    async with peer(process) as node:
        await node.register("r1", boot_id="a")
        supervisor.break_job("membership_change")
        request = NodeRegisterRequest(0, "r1", "r1-b", "broker", 1, "10.0.0.1:2", "", 4, 1, 0, 0, "1", boot_id="b")
        frame = await node.caller.call(Command.NODE_REGISTER, request.encode(), timeout_s=20)
        assert frame.code == ResponseCode.BROKER_ERROR


async def _request_groups(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Metaserver)
    async with peer(process) as node:
        await node.register("r1", boot_id="a")
        supervisor.break_job("known_groups_page")
        body = KnownGroupsRequest("r1", "r1-a").encode()
        assert (await node.caller.call(Command.KNOWN_GROUPS, body, timeout_s=20)).code == ResponseCode.BROKER_ERROR


async def _record_a_membership(process: Process, supervisor: BreakingSupervisor, job: str) -> None:
    assert isinstance(process, Metaserver)
    async with peer(process) as node:
        supervisor.break_job(job)
        assert (await node.register("r1", boot_id="a")).accepted


async def _record_memberships(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    await _record_a_membership(process, supervisor, "membership_record")


async def _read_a_first_membership(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    await _record_a_membership(process, supervisor, "first_membership")
    # Once when the node is answered, and once when the group is stored.
    await eventually_async(
        lambda: any(job.name == "first_membership" and job.failures > 1 for job in supervisor.status()),
        what="both fail",
    )


async def _save_memberships(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    await _record_a_membership(process, supervisor, "route_file_memberships")


async def _record_a_known_place(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Metaserver)
    supervisor.break_job("known_place")
    process.handlers._membership_requests.record_known("r1", (1, 2), lambda: None)


async def _learn_of_an_older_folder(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Broker)
    supervisor.break_job("older_folder")
    # Otherwise it would accept no messages.
    for reason in (Reason.of(Code.OLDER_FOLDER, end=5, highest=9), NO_REASON):
        answer = NodeRegisterResponse(True, reason, 1, BrokerGroupState.READ_ONLY, 4.0, 1.0)
        process.registration.older_folder.answered(answer)


async def _ask_a_page(process: Process, _: BreakingSupervisor, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(process, "serving_stats", _raise)
    assert (await page(process, "/stats"))[0] == 500


async def _park_a_pull(process: Process, timeout_ms: int) -> None:
    assert isinstance(process, Broker)
    caller = Caller(*process.server.address)
    await caller.connect()
    request = PullRequest("empty", "g", "c", 1, -1, -1, timeout_ms, False, ())
    future = caller.call_soon(Command.PULL_MESSAGE, request.encode())
    await eventually_async(lambda: process.handlers.polls.held)
    await caller.close()
    future.cancel()


async def _expire_a_pull(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    supervisor.break_job("long_poll")
    await _park_a_pull(process, 100)


async def _let_the_timer_fire(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    supervisor.break_job("long_poll_timer")
    await _park_a_pull(process, 100)
    # The job does the timer's work.
    assert isinstance(process, Broker)
    await eventually_async(lambda: "long_poll_timer" in supervisor.failing())
    await run_jobs(process)
    await eventually_async(lambda: not process.handlers.polls.held)


async def _refuse_a_pull(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Broker)
    supervisor.break_job("held_refusal")
    caller = Caller(*process.server.address)
    await caller.connect()
    request = PullRequest("empty", "g", "c", 0, -1, -1, 100, False, ())
    future = caller.call_soon(Command.PULL_MESSAGE, request.encode())
    await eventually_async(lambda: "held_refusal" in supervisor.failing())
    await caller.close()
    future.cancel()


async def _read_cold(process: Process, supervisor: BreakingSupervisor, patch: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Broker)
    supervisor.break_job("cold_read")
    pull = process.delivery.pull

    def cold_once(request: PullRequest, peer: Connection, **options: bool) -> object:
        patch.setattr(process.delivery, "pull", pull)
        raise ReadPlan(process.store, process.store.subjects["orders"], Wanted(((0, 1),), 1))

    async with connected(process) as client:
        assert await client.send(message(3)) == {}
        assert await client.begin(group="cold") == ResponseCode.SUCCESS
        patch.setattr(process.delivery, "pull", cold_once)
        assert (await client.pull(group="cold"))[1] == ["m3"]


async def _hold(process: Process, client: Client, count: int) -> None:
    """Let consumer c1 of a new group hold messages."""
    assert isinstance(process, Broker)
    assert await client.begin() == ResponseCode.SUCCESS
    assert await client.send(*(message(n) for n in range(count))) == {}
    assert len((await client.pull(limit=count))[1]) == count


async def _settle_in_turns(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Broker)
    async with connected(process) as client:
        await _hold(process, client, BATCH_MESSAGES_MAX + 1)
        supervisor.break_job("settlement")
        leave = asyncio.ensure_future(client.raw(Command.LEAVE_GROUP, LeaveGroupRequest("orders", "g", "c1").encode()))
        await eventually_async(lambda: "settlement" in supervisor.failing())
        # The job of the leases does its work when it has seen no progress between two runs.
        await run_jobs(process)
        await run_jobs(process)
        assert (await leave).code == ResponseCode.SUCCESS


async def _settle_what_is_cold(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Broker)
    async with connected(process) as client:
        await _hold(process, client, 3)
        subject = process.store.subjects["orders"]
        group = subject.groups["g"]
        settlement = process.delivery.settlements.settle(subject, group, group.progress.consumers["c1"])
        assert settlement is not None
        supervisor.break_job("settlement_read")
        process.handlers.settlements._read(settlement, ReadPlan(process.store, subject, Wanted(((0, 1),), 1)))
        await eventually_async(
            lambda: process.delivery.settlements.running == {}, what="it ended, and a sweep may begin another"
        )


async def _delete_segments(process: Process, supervisor: BreakingSupervisor, patch: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Broker)
    supervisor.break_job("segment_removal")
    stored = SimpleNamespace(hidden_segments=1, delete_hidden=lambda most: None)
    log = SimpleNamespace(hide_before=lambda offset: [], stored=stored)
    patch.setattr(process.storage.segment_removal, "_log", log)
    process.storage.segment_removal.drop_before(0)


async def _set_a_group(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, Broker)
    supervisor.break_job("set_group")
    async with connected(process) as client:
        begins = asyncio.ensure_future(client.begin("new", start="time", value=1))
        await eventually_async(lambda: "set_group" in supervisor.failing())
        begins.cancel()


async def _ask_about_delayed(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, DelayNode)
    supervisor.break_job("query")
    async with connected(process) as client:
        body = FindDelayedRequest(DelayedTarget("m1", "", -1)).encode()
        assert (await client.raw(Command.FIND_DELAYED, body)).code == ResponseCode.BROKER_ERROR


async def _deliver(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    assert isinstance(process, DelayNode)
    supervisor.break_job("delivery_batch")
    async with connected(process) as client:
        assert await client.send(delayed(1, now_ms())) == {}
    with pytest.raises(CriticalTaskFailed, match="task 'delivery' failed: Injected: delivery_batch is broken"):
        await process.serve(asyncio.Event())


async def _fail_a_callback(process: Process, supervisor: BreakingSupervisor, _: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    supervisor.watch_loop()
    try:
        loop.call_soon(_raise)
        await eventually_async(lambda: "event_loop" in supervisor.failing())
    finally:
        loop.set_exception_handler(None)


ONE_SHOTS: dict[str, tuple[str, OneShot]] = {
    "connection_setup": ("broker", _open_connection),
    "connection_closed": ("broker", _close_connection),
    "request": ("broker", _fail_a_request),
    "answer": ("broker", _fail_an_answer),
    "work_during_commit": ("broker", _work_during_a_commit),
    "idle_seal": ("broker", _seal),
    "gathered_commit": ("broker", _gather),
    "heartbeat": ("broker", _fail_a_heartbeat),
    "policy_fetch": ("broker", _fetch_a_policy),
    "bulk_read": ("broker", _read_in_bulk),
    "older_folder": ("broker", _learn_of_an_older_folder),
    "admin_request": ("broker", _ask_a_page),
    "long_poll": ("broker", _expire_a_pull),
    "long_poll_timer": ("broker", _let_the_timer_fire),
    "held_refusal": ("broker", _refuse_a_pull),
    "cold_read": ("broker", _read_cold),
    "settlement": ("broker", _settle_in_turns),
    "settlement_read": ("broker", _settle_what_is_cold),
    "segment_removal": ("broker", _delete_segments),
    "set_group": ("broker", _set_a_group),
    "query": ("delay", _ask_about_delayed),
    "delivery_batch": ("delay", _deliver),
    "membership_change": ("metaserver", _join_a_group),
    "known_groups_page": ("metaserver", _request_groups),
    "membership_record": ("metaserver", _record_memberships),
    "first_membership": ("metaserver", _read_a_first_membership),
    "route_file_memberships": ("metaserver", _save_memberships),
    "known_place": ("metaserver", _record_a_known_place),
    "event_loop": ("metaserver", _fail_a_callback),
}
"""Every one-shot: a process that has it, and what makes it fail there."""
ENDS_THE_PROCESS = {"delivery_batch"}


@pytest.mark.parametrize("name", ONE_SHOTS)
async def test_a_one_shot_that_fails_is_reported_and_everything_else_runs_on(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, exercise = ONE_SHOTS[name]
    async with running(kind, tmp_path) as process:
        supervisor = supervisor_of(process)
        with monkeypatch.context() as patch:
            await exercise(process, supervisor, patch)
            await eventually_async(lambda: name in supervisor.failing(), what=f"{name} is reported")
        supervisor.repair_job(name)
        if name in ENDS_THE_PROCESS:
            return
        assert await reported(process, name) == (200, 200)
        before = runs(process)
        await run_jobs(process)
        assert all(count > before[job] for job, count in runs(process).items())
        await serves(process)


# --- the source -----------------------------------------------------------------------------------------------------

FOLDERS = ("qmq_node", "qmq/net", "broker_node", "delay_node", "metaserver")
STARTERS = {"every", "critical", "background", "later", "call", "report", "watch_loop"}
OUTSIDE = {
    "create_task", "ensure_future", "call_later", "call_at", "call_soon", "call_soon_threadsafe", "add_done_callback",
    "run_in_executor", "to_thread", "Thread", "TaskGroup", "start_soon",
}  # fmt: skip
"""Ways to run something that the supervisor does not see."""
ALLOWED = {
    ("qmq_node/process/job_thread.py", "Thread"): "its loop catches everything and reports it to the owner",
    ("qmq_node/process/job_thread.py", "call_soon_threadsafe"): "the owner's `done` and `on_failure`: see committer.py",
    ("qmq_node/commits/committer.py", "call_soon"): "_begin catches what can raise and fails the committer",
    (
        "qmq_node/replication/master/feed.py",
        "call_soon_threadsafe",
    ): "only keeps the commit; what follows from it is called by the supervisor",
    ("qmq_node/process/first_failure.py", "ensure_future"): "waits for two events",
    ("qmq/net/failure_log.py", "call_later"): "of clients: writes a log line",
    (
        "qmq_node/process/log_writer.py",
        "Thread",
    ): "writes log lines; what it can't write it counts, and there is nowhere to report it",
    (
        "broker_node/delivery/settlement.py",
        "add_done_callback",
    ): "after the supervisor's own; ends the settlement or continues it",
    ("qmq_node/requests/bulk_read_limiter.py", "add_done_callback"): "after the supervisor's own; answers",
    ("broker_node/delivery/pulls.py", "add_done_callback"): "after the supervisor's own; answers",
    ("delay_node/handlers.py", "add_done_callback"): "after the supervisor's own; answers",
    ("metaserver/replication/membership_requests.py", "add_done_callback"): "after the supervisor's own; answers",
    ("delay_node/batches.py", "add_done_callback"): "after the supervisor's own; ends delivery",
    ("qmq_node/server/listener.py", "add_done_callback"): "after the supervisor's own; forgets the task",
    (
        "qmq_node/server/connection.py",
        "call_soon",
    ): "writes answers: what it raises reaches the event loop's handler, which counts it",
    ("qmq_node/server/server.py", "call_soon"): "reads connections again; as above",
    ("qmq/net/session.py", "add_done_callback"): "after the supervisor's own; ends calls that wait for routes",
    ("qmq_node/metaservers/metaservers.py", "TaskGroup"): "the failure of a session ends the critical task metaservers",
    ("qmq_node/metaservers/metaservers.py", "create_task"): "in that group",
    ("qmq/net/caller.py", "add_done_callback"): "forgets the future of a call",
    (
        "metaserver/replication/membership_changes.py",
        "run_in_executor",
    ): "the caller awaits it, as far as its time limit allows",
    (
        "metaserver/replication/membership_changes.py",
        "add_done_callback",
    ): "learns the outcome; its failure reaches the loop's handler, which counts it",
    (
        "metaserver/requests/known_groups.py",
        "add_done_callback",
    ): "answers a request whose task failed; the supervisor reports the failure",
    ("qmq/net/caller.py", "call_soon"): "a method of the caller itself",
    ("broker_node/delivery/pulls.py", "to_thread"): "the supervisor starts it as `cold_read`",
    ("broker_node/delivery/settlement.py", "to_thread"): "the supervisor starts it as `settlement_read`",
}
"""Places outside it, each with the reason why its failure is not silent. An awaited call needs none."""


def _calls() -> Iterator[tuple[str, str, ast.Call]]:
    """(file, name, call) of each call that is not awaited on the spot."""
    for folder in FOLDERS:
        for path in sorted((PROJECT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text())
            awaited = {node.value for node in ast.walk(tree) if isinstance(node, ast.Await)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and node not in awaited:
                    function = node.func
                    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                    yield str(path.relative_to(PROJECT)), name, node


def test_nothing_runs_outside_the_supervisor() -> None:
    found = {(file, name) for file, name, _ in _calls() if name in OUTSIDE}
    assert found - set(ALLOWED) == set(), "start it with the supervisor, or give the reason in ALLOWED"
    assert set(ALLOWED) - found == set(), "ALLOWED names places that are gone"


def _is_supervisors(function: ast.expr) -> bool:
    """Whether it is a method of a supervisor; a bare name is one that was bound to it."""
    if isinstance(function, ast.Name):
        return function.id == "every"
    return isinstance(function, ast.Attribute) and ast.unparse(function.value).endswith("supervisor")


def test_the_tables_list_every_job_that_the_source_starts() -> None:
    named: dict[str, set[str]] = {}
    for file, starter, call in _calls():
        if starter in STARTERS and _is_supervisors(call.func):
            text = {argument.value for argument in call.args if isinstance(argument, ast.Constant)}
            names = {value for value in text if isinstance(value, str)} or (
                {"event_loop"} if starter == "watch_loop" else set()
            )
            assert len(names) == 1, f"{file}:{call.lineno}: a job's name is a constant"
            named.setdefault("one_shot" if starter not in ("every", "critical") else starter, set()).update(names)
    replication = {kind: names | LEADING.get(kind, set()) for kind, names in REPLICATION.items()}
    assert named["every"] == {name for names in PERIODIC.values() for name in names} | MAIN | replication["every"]
    assert named["critical"] == {name for names in CRITICAL.values() for name in names} | replication["critical"]
    assert named["one_shot"] == set(ONE_SHOTS) | replication["one_shot"]
