"""The metaserver: routing, leases, pushes, and going on without its database."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup, Metadata, MetadataVersion, Node, Route
from metaserver.server import CLIENT_CONNECTIONS_MAX
from qmq.net.discovery import find_metaserver
from qmq.protocol.codes import BrokerRequestType, ClientType, Command, ResponseCode
from qmq.protocol.commands import (
    BrokerAcquireMetaRequest,
    BrokerAcquireMetaResponse,
    BrokerRegisterRequest,
    ClientRegisterResponse,
)
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.protocol.primitives import encode_strmap
from qmq_node.replication.rules.membership import Membership
from qmq_testing.repository import MemoryRepository
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import get_json, get_page, write_file
from tests.support.drivers.metaserver_peers import peer, running
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


class AwayRepository(MemoryRepository):
    """A database that can be taken away."""

    is_away = False

    def __getattribute__(self, name: str) -> Any:
        if name in ("load", "save_route", "save_group", "save_node", "save_clients") and type(self).is_away:
            raise ConnectionError("the database is away")
        return super().__getattribute__(name)


async def test_the_address_page_says_where_the_metaserver_listens(tmp_path: Path) -> None:
    async with running(tmp_path, ManualClock()) as metaserver:
        url = "http://{}:{}/meta/address".format(*metaserver.admin.address)
        assert await find_metaserver(url) == metaserver.server.address


async def test_clients_that_start_together_are_all_answered(tmp_path: Path) -> None:
    """A program with hundreds of consumers, as the demo, requests the address for each of them at once."""
    async with running(tmp_path, ManualClock()) as metaserver:
        pages = ["/meta/address"] * (CLIENT_CONNECTIONS_MAX - 10) + ["/meta/delay-groups"] * 10
        answers = await asyncio.gather(*(get_page(metaserver, page) for page in pages))
        assert {status for status, _ in answers} == {200}
        assert metaserver.admin.guard.cut == {}, "no connection was closed to make room"


async def test_a_new_subject_is_served_by_two_live_groups_and_stays_there(tmp_path: Path) -> None:
    repository = MemoryRepository()
    async with running(tmp_path, ManualClock(), repository) as metaserver, peer(metaserver) as client:
        for i in range(4):
            await client.register(f"g{i}", port=i + 1)
        client.ask("orders", ClientType.PRODUCER)
        client.ask("%RETRY%orders%g", ClientType.CONSUMER, "g")
        await eventually_async(lambda: len(client.pushed) == 2)
        producer, consumer = client.answers()
        assert len(producer.broker_groups) == 2
        assert producer.subject == "orders"
        # Traps T19, T20: the subject asked for comes back; states are 1 to 4; a retry subject goes where the real one is.
        assert (consumer.subject, consumer.group, consumer.client_type) == ("%RETRY%orders%g", "g", ClientType.CONSUMER)
        names = {group.name for group in producer.broker_groups}
        assert {group.name for group in consumer.broker_groups} == names
        assert {group.state for group in producer.broker_groups} == {1}
        await eventually_async(lambda: "orders" in repository.routes)
        assert set(repository.routes["orders"].broker_groups) == names


async def test_a_registration_that_can_not_be_served_is_answered_when_a_group_appears(tmp_path: Path) -> None:
    # Traps T1, T3: an answer without groups would block the official client for ever.
    async with running(tmp_path, ManualClock()) as metaserver, peer(metaserver) as client, peer(metaserver) as node:
        for client_type in (ClientType.PRODUCER, ClientType.CONSUMER, ClientType.DELAY_PRODUCER):
            client.ask("orders", client_type, "g")
        await eventually_async(lambda: metaserver.handlers.counters.held == 3)
        assert client.pushed == []
        await node.register("g1")
        await eventually_async(lambda: len(client.pushed) == 2)
        assert {(a.client_type, a.broker_groups[0].name) for a in client.answers()} == {(1, "g1"), (2, "g1")}
        await node.register("d1", kind="delay")
        await eventually_async(lambda: len(client.pushed) == 3)
        assert client.answers()[2].broker_groups[0].name == "d1"


@pytest.mark.parametrize(("code", "echoed"), [("9", 9), ("x", 3), ("", 3), ("300", 3), ("-1", -1)])
async def test_f6_an_unknown_client_type_is_answered_like_other(tmp_path: Path, code: str, echoed: int) -> None:
    """Trap T1: always answer. A number that fits is echoed, as clients match answers by it."""
    async with running(tmp_path, ManualClock()) as metaserver, peer(metaserver) as client:
        entries = {"subject": "orders", "clientTypeCode": code, "clientId": "c", "requestType": "y"}
        frame = await client.caller.call(Command.CLIENT_REGISTER, encode_strmap(entries), timeout_s=20)
        assert frame.code == ResponseCode.SUCCESS
        answer = ClientRegisterResponse.decode(frame.body)
        assert (answer.subject, answer.client_type, answer.broker_groups) == ("orders", echoed, ())
        assert len(metaserver.handlers.registrations) == 0


async def test_a_silent_group_goes_offline_clients_hear_of_it_and_it_comes_back_by_itself(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as metaserver, peer(metaserver) as client:
        await client.register("g1", port=1)
        await client.register("g2", port=2)
        client.ask("orders", ClientType.PRODUCER)
        await eventually_async(lambda: len(client.pushed) == 1)
        for _ in range(8):
            clock.advance(1)
            metaserver.handlers.expire()
            await client.register("g2", port=2, request_type=BrokerRequestType.HEARTBEAT)
        await eventually_async(lambda: len(client.pushed) == 2)
        assert [g.name for g in client.answers()[1].broker_groups] == ["g2"]
        assert metaserver.directory.groups["g1"].state is GroupState.OFFLINE
        await client.register("g1", port=1, request_type=BrokerRequestType.HEARTBEAT)
        await eventually_async(lambda: len(client.pushed) == 3)
        assert {g.name for g in client.answers()[2].broker_groups} == {"g1", "g2"}
        stamps = [a.timestamp_ms for a in client.answers()]
        assert stamps == sorted(stamps)


async def test_nobody_expires_because_the_metaserver_itself_stood_still(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as metaserver, peer(metaserver) as node:
        await node.register("g1")
        clock.advance(1)
        metaserver.handlers.expire()
        clock.advance(60)
        metaserver.handlers.expire()
        assert metaserver.directory.groups["g1"].state is GroupState.READ_WRITE
        for _ in range(8):
            clock.advance(1)
            metaserver.handlers.expire()
        assert metaserver.directory.groups["g1"].state is GroupState.OFFLINE


async def test_time_stamps_never_fall_even_when_the_clock_does(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as metaserver, peer(metaserver) as client:
        await client.register("g1")
        for number in range(3):
            client.ask(f"s{number}", ClientType.CONSUMER, "g")
            await eventually_async(lambda n=number: len(client.pushed) > n)
            clock.step_wall(-3_600_000)
        stamps = [a.timestamp_ms for a in client.answers()]
        assert stamps == sorted(stamps)
        assert min(stamps) > 0


async def test_another_node_may_not_take_a_live_masters_group(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as metaserver, peer(metaserver) as node:
        assert (await node.register("g1", "a")).accepted
        refused = await node.register("g1", "b", port=9)
        assert not refused.accepted
        assert "a" in refused.reason
        assert metaserver.directory.groups["g1"].membership.master == "a"
        clock.advance(20)
        assert (await node.register("g1", "b", port=9)).accepted


async def test_f12_a_node_whose_log_went_back_is_read_only(tmp_path: Path) -> None:
    async with running(tmp_path, ManualClock()) as metaserver, peer(metaserver) as node:
        await node.register("g1", log_end=5000)
        answer = await node.register("g1", log_end=3000)
        assert answer.accepted
        assert answer.state == 2
        assert "5000" in answer.reason
        assert metaserver.directory.groups["g1"].state is GroupState.READ_ONLY


async def test_f7_a_log_end_of_zero_does_not_reset_the_highest_one(tmp_path: Path) -> None:
    async with running(tmp_path, ManualClock()) as metaserver, peer(metaserver) as node:
        await node.register("g1", log_end=5000)
        answer = await node.register("g1", log_end=0)
        assert (answer.accepted, answer.state) == (True, 2)
        assert "5000" in answer.reason
        assert (await node.register("g1", log_end=4999)).state == 2
        assert (await node.register("g1", log_end=5000)).state == 1


async def test_f28_with_the_database_away_answers_come_from_memory_and_are_stored_later(tmp_path: Path) -> None:
    repository = AwayRepository()
    async with running(tmp_path, ManualClock(), repository) as metaserver, peer(metaserver) as client:
        await client.register("g1", port=1)
        await client.register("g2", port=2)
        await eventually_async(lambda: metaserver.serving.write_behind.pending == 0)
        AwayRepository.is_away = True
        try:
            client.ask("new", ClientType.PRODUCER)
            await eventually_async(lambda: len(client.pushed) == 1)
            assert len(client.answers()[0].broker_groups) == 2
            await eventually_async(lambda: metaserver.serving.write_behind.problem != "")
        finally:
            AwayRepository.is_away = False
        await eventually_async(
            lambda: metaserver.serving.write_behind.pending == 0 and not metaserver.serving.write_behind.problem
        )
        assert "new" in repository.routes


async def test_f32_a_metaserver_started_without_its_database_goes_on_from_its_route_file(tmp_path: Path) -> None:
    async with running(tmp_path, ManualClock()) as metaserver, peer(metaserver) as client:
        await client.register("g1", port=1)
        await client.register("g2", port=2)
        client.ask("orders", ClientType.PRODUCER)
        await eventually_async(lambda: len(client.pushed) == 1)
    AwayRepository.is_away = True
    try:
        async with running(tmp_path, ManualClock(), AwayRepository()) as metaserver, peer(metaserver) as client:
            client.ask("orders", ClientType.CONSUMER, "g")
            await eventually_async(lambda: len(client.pushed) == 1)
            assert {g.name for g in client.answers()[0].broker_groups} == {"g1", "g2"}
    finally:
        AwayRepository.is_away = False


async def test_an_unreadable_route_file_is_logged_as_an_error_and_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "routes.json", b'{"broker_groups": [')
    monkeypatch.setattr(AwayRepository, "is_away", True)
    async with running(tmp_path, ManualClock(), AwayRepository()) as metaserver:
        errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
        assert len(errors) == 1
        assert "routes.json is unreadable" in errors[0]
        _, cluster = await get_json(metaserver, "/meta/cluster")
        assert "unreadable at the start" in cluster["metaserver"]["route_file"]
        assert b"qmq_meta_route_file_failures_total 1.0" in (await get_page(metaserver, "/metrics"))[1]


class SlowRepository(MemoryRepository):
    """Takes `seconds` to report whether anything changed."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.asked = 0

    def version(self) -> MetadataVersion:
        self.asked += 1
        running_loop().block(self.seconds)
        return super().version()


async def test_a_stop_during_a_reload_is_no_error(tmp_path: Path) -> None:
    repository = SlowRepository()
    async with running(tmp_path, ManualClock(), repository) as metaserver:
        asked, repository.seconds = repository.asked, 3.0
        metaserver.supervisor.run_soon("reload")
        await eventually_async(lambda: repository.asked > asked)
        await metaserver.close()
        # The query ends after it.
        await asyncio.sleep(5)
        assert metaserver.supervisor.failing() == {}
        assert running_loop().errors == []


async def test_a_route_that_another_metaserver_stored_first_holds_and_gets_the_group_that_clients_were_given(
    tmp_path: Path,
) -> None:
    groups = [
        BrokerGroup(GroupKind.BROKER, GroupState.READ_WRITE, Membership(f"g{i}", (), f"g{i}-a", (f"g{i}-a",), 1, 0, ""))
        for i in range(3)
    ]
    nodes = [Node(f"g{i}-a", f"g{i}", 0, f"10.0.0.1:{i + 1}", "", "1", 0) for i in range(3)]
    repository = MemoryRepository(Metadata(tuple(groups), tuple(nodes)))
    repository_route = Route("orders", ("g2",), 5, 1)
    async with (
        running(tmp_path, ManualClock(), repository, subject_groups_min=1) as metaserver,
        peer(metaserver) as client,
    ):
        repository.routes["orders"] = repository_route
        client.ask("orders", ClientType.PRODUCER)
        await eventually_async(lambda: repository.routes["orders"].version == 6)
        (given,) = [group.name for group in client.answers()[0].broker_groups]
        assert given != "g2"
        assert repository.routes["orders"].broker_groups == ("g2", given)
        assert metaserver.directory.routes["orders"] == repository.routes["orders"]
        await eventually_async(lambda: [g.name for g in client.answers()[-1].broker_groups] == ["g2", given])
        client.ask("other", ClientType.PRODUCER)
        await eventually_async(lambda: "other" in repository.routes and not metaserver.serving.write_behind.pending)
        assert repository.routes["other"].version == 1
        assert metaserver.directory._added == {}, "what is stored is forgotten"


async def test_nodes_of_qmq_register_for_groups_that_the_settings_name(tmp_path: Path) -> None:
    options = {"new_groups": "approval", "official_nodes": "other, java"}
    async with running(tmp_path, ManualClock(), **options) as metaserver, peer(metaserver) as node:
        body = BrokerRegisterRequest(0, "java", "10.0.0.9:20881", 0, 1).encode()
        frame = await node.caller.call(Command.BROKER_REGISTER, body, timeout_s=20, version=8)
        assert (frame.code, len(frame.body)) == (ResponseCode.SUCCESS, 0)
        body = BrokerAcquireMetaRequest("10.0.0.9", 20881).encode()
        frame = await node.caller.call(Command.BROKER_ACQUIRE_META, body, timeout_s=20, version=8)
        assert BrokerAcquireMetaResponse.decode(frame.body) == BrokerAcquireMetaResponse("java", "", 0)
        body = BrokerAcquireMetaRequest("10.0.0.9", 1).encode()
        frame = await node.caller.call(Command.BROKER_ACQUIRE_META, body, timeout_s=20, version=8)
        assert frame.code == ResponseCode.BROKER_ERROR
        assert metaserver.directory.groups["java"].state is GroupState.READ_WRITE


@pytest.mark.parametrize(
    ("code", "body", "version", "expected"),
    [
        (77, b"", 9, ResponseCode.UNKNOWN_CODE),
        (Command.CLIENT_REGISTER, b"\xff", 9, ResponseCode.BROKER_ERROR),
        (Command.CLIENT_REGISTER, b"", 3, ResponseCode.BROKER_ERROR),
        (Command.NODE_REGISTER, b"\x00\x00", 9, ResponseCode.BROKER_ERROR),
        (Command.HEARTBEAT, b"", 8, Command.HEARTBEAT),
    ],
)
async def test_bad_requests_get_their_answer(
    tmp_path: Path, code: int, body: bytes, version: int, expected: int
) -> None:
    async with running(tmp_path, ManualClock()) as metaserver, peer(metaserver) as client:
        frame = await client.caller.call(code, body, timeout_s=20, version=version)
        assert frame.code == expected


async def test_an_illegal_subject_is_sent_to_a_broker_that_refuses_it_and_gets_no_route(tmp_path: Path) -> None:
    async with running(tmp_path, ManualClock()) as metaserver, peer(metaserver) as client:
        await client.register("g1")
        client.ask("il legal", ClientType.CONSUMER, "g")
        await eventually_async(lambda: len(client.pushed) == 1)
        # Trap T3: an answer without groups would block the client's sender thread.
        assert [group.name for group in client.answers()[0].broker_groups] == ["g1"]
        assert metaserver.directory.routes == {}


def test_routes_are_drawn_from_live_groups_and_kept() -> None:
    from metaserver.memory.route_table import USABLE, assign

    rng = random.Random(3)
    assert assign(("a",), {"a", "b"}, rng) == ("a", "b")
    assert assign(("a", "b"), {"c"}, rng) == ("a", "b")
    assert assign((), {"c"}, rng) == ("c",)
    assert assign((), set(), rng) == ()
    assert len(set(assign((), {"a", "b", "c", "d"}, rng))) == 2
    assert {t: sorted(USABLE.get(t, ())) for t in ClientType} == {
        ClientType.PRODUCER: [1, 3],
        ClientType.CONSUMER: [1, 2],
        ClientType.OTHER: [],
        ClientType.DELAY_PRODUCER: [1, 3],
    }


@pytest.mark.parametrize("name", ["or\u202eders", "orders\xa0", "orde\u0301"])
async def test_a_new_subject_with_a_hidden_character_gets_no_route_and_a_stored_one_keeps_its_own(
    tmp_path: Path, name: str
) -> None:
    async with running(tmp_path, ManualClock()) as metaserver, peer(metaserver) as client:
        await client.register("g1")
        client.ask(name, ClientType.PRODUCER)
        await eventually_async(lambda: len(client.pushed) == 1)
        assert metaserver.directory.routes == {}
        assert metaserver.handlers.counters.illegal == 1
        metaserver.directory.put_route(Route(name, ("g1",), 1, 0))
        client.ask(name, ClientType.PRODUCER)
        await eventually_async(lambda: len(client.pushed) == 2)
        assert [group.name for group in client.answers()[1].broker_groups] == ["g1"]
        assert metaserver.handlers.counters.illegal == 1


async def test_a_group_with_a_hidden_character_is_not_stored(tmp_path: Path) -> None:
    repository = MemoryRepository()
    async with running(tmp_path, ManualClock(), repository) as metaserver, peer(metaserver) as client:
        await client.register("g1")
        for group in ("bill\xa0ing", "bill\u202eing", "\x05g", "billing"):
            client.ask("orders", ClientType.CONSUMER, group)
        await eventually_async(lambda: len(client.pushed) == 4)
        await eventually_async(lambda: metaserver.serving.write_behind.pending == 0)
        assert {seen.group for seen in repository.clients} == {"billing"}
        assert metaserver.handlers.counters.illegal == 3


async def test_a_new_broker_group_or_node_with_a_hidden_character_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, ManualClock()) as metaserver, peer(metaserver) as client:
        for group, node in (("g\u202e1", "a"), ("\x05Å\x03", "a"), ("g1", "a\xa0")):
            request = NodeRegisterRequest(
                BrokerRequestType.ONLINE, group, node, "broker", 0, "10.0.0.1:1", "", 1, 1, 0, 0, "1"
            )
            frame = await client.caller.call(Command.NODE_REGISTER, request.encode(), timeout_s=20)
            assert frame.code == ResponseCode.BROKER_ERROR
        assert metaserver.directory.groups == {}
        assert metaserver.directory.nodes == {}
