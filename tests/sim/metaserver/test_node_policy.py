"""Policies from the metaserver to its nodes: fetched when they change, kept while it is away, and peers that know none."""

from pathlib import Path
from typing import Any

import pytest

from broker_node.broker import Broker
from delay_node.batches import SUBJECT_REFUSED_SECONDS
from metaserver.domain import MetadataVersion
from metaserver.options import MetaOptions
from metaserver.server import Metaserver
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode, SendResult
from qmq.protocol.extensions import (
    NodePolicyRequest,
    NodePolicyResponse,
)
from qmq_node.metaservers import policy_fetcher
from qmq_node.node.node import Node
from qmq_node.policy import EMPTY_POLICY, NodePolicy, SubjectPolicy, encode_policy
from qmq_testing.repository import MemoryRepository
from tests.support.drivers.in_process import (
    SmallSystem,
    connected,
    delayed,
    get_json,
    get_page,
    machine,
    message,
    now_ms,
    small_system,
)
from tests.support.drivers.policies import set_policies
from tests.support.waiting import eventually_async

SHUT = NodePolicy.of({"orders": SubjectPolicy(closed=True)})


class AwayRepository(MemoryRepository):
    """A database that does not answer."""

    def version(self) -> MetadataVersion:
        raise OSError("the database is away")


async def in_force(node: Node, version: str, within_s: float = 10.0) -> None:
    await eventually_async(lambda: node.policy.version == version, within_s, f"policy {version} in force")


async def test_a_changed_policy_reaches_its_nodes_and_they_report_it(tmp_path: Path) -> None:
    async with small_system(tmp_path, groups=2) as system:
        one, two = system.brokers["g1"], system.brokers["g2"]
        directory = system.meta.directory
        await in_force(one, EMPTY_POLICY.version)
        await in_force(system.delay, EMPTY_POLICY.version)
        sent = system.meta.handlers.counters.policies_sent
        set_policies(directory, {"g1": SHUT, "d1": NodePolicy.of(read_only="later")})
        await in_force(one, SHUT.version)
        await in_force(two, EMPTY_POLICY.version)
        await eventually_async(lambda: directory.groups["g1"].policy_version == SHUT.version)
        await eventually_async(lambda: system.delay.registration.refuse_sends() == "read only: later")
        assert system.meta.handlers.counters.policies_sent == sent + 2
        async with connected(one) as client, connected(two) as other:
            assert (await client.send(message(0)))["m0"].result == SendResult.STORE_ERROR
            assert not await other.send(message(0))
            set_policies(directory, {})
            await in_force(one, EMPTY_POLICY.version)
            assert not await client.send(message(0))
        await eventually_async(lambda: directory.groups["g1"].policy_version == EMPTY_POLICY.version)


@pytest.mark.slow
async def test_a_large_policy_arrives_whole(tmp_path: Path) -> None:
    async with small_system(tmp_path, with_delay=False) as system:
        large = NodePolicy.of({f"subject-{n:016d}": SubjectPolicy(messages_per_second=n + 1) for n in range(40_000)})
        assert len(encode_policy(large)) > 2 << 20
        set_policies(system.meta.directory, {"g1": large})
        await in_force(system.brokers["g1"], large.version, 30)
        assert system.brokers["g1"].policy == large
        # The lease did not suffer from it.
        assert system.meta.directory.groups["g1"].is_expired is False


async def test_with_the_metaserver_away_a_node_goes_on_with_its_policy_also_over_a_restart(tmp_path: Path) -> None:
    async with small_system(tmp_path, with_delay=False) as system:
        broker = system.brokers["g1"]
        set_policies(system.meta.directory, {"g1": SHUT})
        await in_force(broker, SHUT.version)
        await system.meta.close()
        await eventually_async(
            lambda: (
                broker.registration.metaservers is not None and broker.registration.metaservers.sessions[0].failures > 0
            )
        )
        for _ in range(2):
            async with connected(broker) as client:
                assert list(await client.send(message(0), message(1, "open"))) == ["m0"]
            await broker.close()
            broker = system.brokers["g1"] = Broker(broker.options, machine())
            await broker.start()
            assert broker.policy == SHUT


async def test_a_metaserver_that_starts_anew_and_knows_no_policies_lifts_none(tmp_path: Path) -> None:
    async with small_system(tmp_path, with_delay=False) as system:
        broker = system.brokers["g1"]
        set_policies(system.meta.directory, {"g1": SHUT})
        await in_force(broker, SHUT.version)
        http, tcp = system.meta.admin.address[1], system.meta.server.address[1]
        await system.meta.close()
        again = Metaserver(
            MetaOptions(data_dir=str(tmp_path / "meta"), http_port=http, tcp_port=tcp), AwayRepository(), machine()
        )
        await again.start()
        try:
            directory = again.directory
            reported = lambda: "g1" in directory.groups and directory.groups["g1"].policy_version  # noqa: E731
            assert await eventually_async(reported, 20) == SHUT.version
            assert broker.policy == SHUT
            set_policies(directory, {})
            await in_force(broker, EMPTY_POLICY.version)
        finally:
            await again.close()


async def test_what_can_not_be_read_or_kept_is_not_applied_and_tried_again_in_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_fetcher, "BACK_OFF_SECONDS", (0.05, 0.1))
    monkeypatch.setattr("metaserver.memory.directory.HEARTBEAT_SECONDS", 0.05)
    async with small_system(tmp_path, with_delay=False) as system:
        broker = system.brokers["g1"]
        directory = system.meta.directory
        set_policies(directory, {"g1": SHUT})
        await in_force(broker, SHUT.version)
        assert broker.registration.metaservers is not None
        other = NodePolicy.of(read_only="x")
        with monkeypatch.context() as broken:
            broken.setattr(directory.policies, "document", lambda *_: (other.version, b'{"version": "v", "paused": 1}'))
            set_policies(directory, {"g1": other})
            await eventually_async(
                lambda: (
                    broker.registration.metaservers is not None
                    and broker.registration.metaservers.policies.failures >= 2
                )
            )
            assert "paused" in broker.registration.metaservers.policies.problem
            assert broker.policy == SHUT
        await in_force(broker, other.version)
        await eventually_async(
            lambda: (
                broker.registration.metaservers is not None and broker.registration.metaservers.policies.problem == ""
            )
        )
        failures = broker.registration.metaservers.policies.failures

        def full(_document: bytes) -> None:
            raise OSError(28, "no space")

        with monkeypatch.context() as broken:
            broken.setattr(broker.registration.policies._file, "save", full)
            set_policies(directory, {"g1": SHUT})
            await eventually_async(
                lambda: (
                    broker.registration.metaservers is not None
                    and broker.registration.metaservers.policies.failures > failures
                )
            )
            assert broker.policy == other
        await in_force(broker, SHUT.version)
        await eventually_async(
            lambda: (
                broker.registration.metaservers is not None and broker.registration.metaservers.policies.problem == ""
            )
        )
        assert (await stats(broker))["policy"]["problem"] == ""


async def test_a_metaserver_that_names_one_version_and_sends_another_is_not_asked_in_a_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metaserver.memory.directory.HEARTBEAT_SECONDS", 0.05)
    async with small_system(tmp_path, with_delay=False) as system:
        counters, directory = system.meta.handlers.counters, system.meta.directory
        monkeypatch.setattr(directory.policies, "document", lambda *_: (SHUT.version, encode_policy(SHUT)))
        set_policies(directory, {"g1": NodePolicy.of(read_only="never sent")})
        await in_force(system.brokers["g1"], SHUT.version)
        sent, heard = counters.policies_sent, counters.node_registers
        await eventually_async(lambda: counters.node_registers >= heard + 10)
        assert counters.policies_sent <= sent + 2


async def stats(node: Node) -> Any:
    return (await get_json(node, "/stats"))[1]


async def test_a_question_for_a_policy_is_answered_to_registered_nodes_only(tmp_path: Path) -> None:
    async with small_system(tmp_path, with_delay=False) as system:
        set_policies(system.meta.directory, {"g1": SHUT})
        await in_force(system.brokers["g1"], SHUT.version)
        caller = Caller(*system.meta.server.address)
        await caller.connect()
        try:

            async def ask(group: str, node_id: str, version: str) -> tuple[int, NodePolicyResponse | None]:
                body = NodePolicyRequest(group, node_id, version).encode()
                frame = await caller.call(Command.NODE_POLICY, body, timeout_s=20)
                found = NodePolicyResponse.decode(frame.body) if frame.code == ResponseCode.SUCCESS else None
                return frame.code, found

            expected = NodePolicyResponse(SHUT.version, encode_policy(SHUT))
            assert await ask("g1", "g1-a", "") == (ResponseCode.SUCCESS, expected)
            assert await ask("g1", "g1-a", SHUT.version) == (
                ResponseCode.SUCCESS,
                NodePolicyResponse(SHUT.version, b""),
            )
            assert await ask("g2", "g1-a", "") == (ResponseCode.BROKER_ERROR, None)
            assert await ask("g1", "stranger", "") == (ResponseCode.BROKER_ERROR, None)
        finally:
            await caller.close()


# --- the delay node ---------------------------------------------------------------------------------------------------


async def test_a_delay_node_refuses_closed_subjects_and_what_is_over_a_quota(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system:
        limited = SubjectPolicy(messages_per_second=2)
        set_policies(system.meta.directory, {"d1": NodePolicy.of({**SHUT.subjects, "limited": limited})})
        due = now_ms() + 3_600_000
        await eventually_async(lambda: len(system.delay.registration.send_gate) == 2)
        async with connected(system.delay) as client:
            frame = (
                delayed(0, due, "open"), delayed(1, due), *(delayed(n, due, "limited") for n in range(2, 6)),
                delayed(6, due, "%RETRY%orders%g"), delayed(7, due, "open"),
            )  # fmt: skip
            failures = await client.send(*frame)
        assert {key: failure.result for key, failure in failures.items()} == {
            "m1": SendResult.STORE_ERROR, "m4": SendResult.STORE_ERROR, "m5": SendResult.STORE_ERROR,
        }  # fmt: skip
        assert system.delay.store.pending == 5
        shown = await stats(system.delay)
        assert {rules["subject"]: rules["closed"] for rules in shown["subject_rules"]} == {
            "orders": True,
            "limited": False,
        }
        text = (await get_page(system.delay, "/metrics"))[1].decode()
        assert 'qmq_delay_policy_refused_messages_total{broker_group="d1",reason="quota"} 2.0' in text


async def test_due_messages_of_a_closed_subject_hold_up_no_other_subject_and_come_when_it_opens(
    tmp_path: Path,
) -> None:
    async with small_system(tmp_path) as system:
        broker = system.brokers["g1"]
        set_policies(system.meta.directory, {"g1": SHUT})
        await in_force(broker, SHUT.version)
        await warm(system, broker)
        due = now_ms() + 200
        async with connected(system.delay) as client:
            assert not await client.send(*(delayed(n, due) for n in range(50)))
            await eventually_async(lambda: system.delay.serving.dispatcher.sender.counters.failed_batches > 0)
            # The subject rests, the broker group does not.
            for number in range(100, 110):
                assert not await client.send(delayed(number, now_ms(), "open"))
                await eventually_async(lambda wanted=number: f"m{wanted}" in system.counts("open"))
                assert not system.delay.serving.dispatcher.lanes.breaker._failing
        # At rest in between: not asked for in a circle.
        rests = (now_ms() - due) / 1000 / SUBJECT_REFUSED_SECONDS
        assert broker.handlers.counters.policy_refused_messages["closed"] <= 50 * (rests + 2)
        set_policies(system.meta.directory, {})
        await eventually_async(lambda: len(system.counts("orders")) == 50)
        assert set(system.counts("orders").values()) == {1}


async def warm(system: SmallSystem, broker: Broker) -> None:
    """Until the delay node has found the way to the broker."""
    async with connected(system.delay) as client:
        assert not await client.send(delayed(999, now_ms(), "open"))
        await eventually_async(lambda: "m999" in system.counts("open"))
