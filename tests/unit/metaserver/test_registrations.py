"""Registrations of clients: what a change costs, what is answered at a limit, what is left of a closed connection."""

import logging
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from metaserver.choices import OperatorState
from metaserver.domain import Route
from metaserver.memory.directory import Directory
from metaserver.replication.membership_changes import MembershipChanges
from metaserver.requests.client_handlers import CHECKS_PER_BATCH, REGISTERED_PER_BATCH, SUBJECTS_PER_BATCH
from metaserver.requests.handlers import MetaHandlers
from metaserver.requests.official_nodes import OfficialNodes
from metaserver.requests.registrations import REMOVED_PER_BATCH, RegistrationLimits
from metaserver.stored.write_behind import WriteBehind
from qmq.protocol.codes import BrokerRequestType, ClientType, Command, ResponseCode
from qmq.protocol.commands import BrokerRegisterRequest, ClientRegisterRequest, ClientRegisterResponse
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.protocol.frames import Frame
from qmq.supervisor import Supervisor
from qmq_node.requests.bulk_read_limiter import BulkReadLimiter
from qmq_testing.repository import MemoryRepository
from tests.support.manual_clock import ManualClock


class FakeConnection:
    """A connection that keeps what is written to it."""

    def __init__(self, number: int = 0) -> None:
        self.peer = f"10.0.0.{number}:1"
        self.replies: list[tuple[Frame, int, bytes]] = []
        self.dropped: list[Frame] = []
        self.pushed: list[bytes] = []
        self._on_close: list[Callable[[], None]] = []
        self.is_closed = False

    def reply(self, frame: Frame, code: int, *parts: bytes) -> None:
        self.replies.append((frame, code, b"".join(parts)))

    def push(self, data: bytes) -> None:
        self.pushed.append(data)

    def drop(self, frame: Frame) -> None:
        self.dropped.append(frame)

    def on_close(self, callback: Callable[[], None]) -> None:
        self._on_close.append(callback)

    def close(self) -> None:
        self.is_closed = True
        for callback in self._on_close:
            callback()

    abort = close

    def answers(self) -> list[ClientRegisterResponse]:
        """The successful answers to CLIENT_REGISTER."""
        assert all(code == ResponseCode.SUCCESS for _, code, _ in self.replies)
        return [ClientRegisterResponse.decode(body) for _, _, body in self.replies]


async def _no_file() -> None:
    """Nodes get no memberships here."""


class Server:
    """The handlers without sockets; work that is spread over turns of the loop is done by `settle`."""

    def __init__(self, limits: RegistrationLimits | None = None, official_nodes: OfficialNodes | None = None) -> None:
        self.clock = ManualClock()
        self.directory = Directory(self.clock, random.Random(1), subject_groups_min=1)
        self.write_behind = WriteBehind(MemoryRepository(), lambda *_: None, lambda leases: None, self.clock)
        supervisor = Supervisor(self.clock, logger=logging.getLogger("qmq.meta"), on_failure=lambda name, error: None)
        repository = MemoryRepository()
        gate = BulkReadLimiter(self.clock, supervisor, token="", bytes_per_second=0)
        self._soon: list[Callable[[], None]] = []
        self.turns = 0
        self.handlers = MetaHandlers(
            self.directory,
            self.write_behind,
            self.clock,
            gate,
            MembershipChanges(repository.membership_store(), self.directory.learn_membership),
            supervisor,
            _no_file,
            limits=limits,
            official_nodes=official_nodes,
            call_soon=self._soon.append,
        )

    def settle(self) -> None:
        """Run what was scheduled, turn by turn."""
        while self._soon:
            turn, self._soon[:] = list(self._soon), []
            self.turns += 1
            for call in turn:
                call()

    def node(
        self,
        group: str,
        *,
        kind: str = "broker",
        state: int = 1,
        port: int = 1,
        settle: bool = True,
        connection: FakeConnection | None = None,
    ) -> None:
        """A heartbeat, over a new connection unless one is given."""
        self._handle(connection or FakeConnection(), Command.NODE_REGISTER, NodeRegisterRequest(
            BrokerRequestType.HEARTBEAT, group, f"{group}-a", kind, 0, f"10.1.0.1:{port}", "", state, 1, 0, 0, "1"
        ).encode())  # fmt: skip
        if settle:
            self.settle()

    def official_node(self, group: str, *, state: int, port: int) -> None:
        """A heartbeat of a node of the official server."""
        request = BrokerRegisterRequest(BrokerRequestType.HEARTBEAT, group, f"10.1.0.1:{port}", 0, state)
        self._handle(FakeConnection(), Command.BROKER_REGISTER, request.encode())
        self.settle()

    def ask(
        self, connection: FakeConnection, subject: str, client_type: int = ClientType.PRODUCER, group: str = ""
    ) -> None:
        """CLIENT_REGISTER of one client."""
        request = ClientRegisterRequest(subject, client_type, "app", "client@@1", group, 1)
        self._handle(connection, Command.CLIENT_REGISTER, request.encode())

    def _handle(self, connection: FakeConnection, code: int, body: bytes) -> None:
        self.handlers.handle(connection, Frame(code, 9, 0, 0, code, memoryview(body), bytearray(body), 0))  # type: ignore[arg-type]


def test_a_group_change_checks_each_registration_of_its_subjects_once() -> None:
    """1,000 subjects of one connection, as a delay node has them: 1,000 checks, not 1,000 x 1,000."""
    server, connection = Server(), FakeConnection()
    server.node("g1", port=1)
    for number in range(1_000):
        server.ask(connection, f"s{number}")
    server.settle()
    before = server.handlers.counters.route_checks
    server.node("g1", state=3)
    assert server.handlers.counters.route_checks - before == 1_000
    assert len(connection.pushed) == 1_000


def test_a_group_change_does_not_check_registrations_for_other_groups() -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1")
    server.ask(connection, "orders")
    server.ask(connection, "orders", ClientType.DELAY_PRODUCER)
    server.ask(connection, "orders", ClientType.OTHER)
    server.node("d1", kind="delay")
    server.node("g2")
    before = server.handlers.counters.route_checks
    server.node("g2", state=3)
    assert server.handlers.counters.route_checks == before
    server.node("d1", kind="delay", state=3)
    assert server.handlers.counters.route_checks - before == 1, "the one that waits for delay groups"
    server.node("g1", state=3)
    assert server.handlers.counters.route_checks - before == 2, "the one producer"


def test_checks_are_spread_over_turns_of_the_event_loop() -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1")
    for number in range(CHECKS_PER_BATCH + 1):
        server.ask(connection, f"s{number}")
    server.settle()
    turns = server.turns
    server.node("g1", state=3)
    assert server.turns - turns == 2
    assert len(connection.pushed) == CHECKS_PER_BATCH + 1


def test_a_group_change_looks_up_the_registrations_of_its_subjects_in_later_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1", port=1)
    subjects = 3 * SUBJECTS_PER_BATCH
    for number in range(subjects):
        server.directory.put_route(Route(f"s{number}", ("g1",), 1, 0))
    server.ask(connection, f"s{subjects - 1}")
    server.settle()
    looked_up: list[str] = []
    of_subject = server.handlers.registrations.of_subject
    monkeypatch.setattr(
        server.handlers.registrations, "of_subject", lambda subject: looked_up.append(subject) or of_subject(subject)
    )
    server.node("g1", port=1, state=3, settle=False)
    assert looked_up == []
    server.turns = 0
    server.settle()
    assert len(looked_up) == subjects
    assert server.turns >= 3
    assert len(connection.pushed) == 1


def test_a_registration_over_the_limit_of_its_connection_is_answered() -> None:
    server, connection = Server(RegistrationLimits(per_connection_max=1)), FakeConnection()
    server.ask(connection, "first")
    server.ask(connection, "second")
    # Traps T1, T3: no answer would block the client for ever; with an empty one it asks again within 60 s.
    assert [(a.subject, a.broker_groups) for a in connection.answers()] == [("second", ())]
    assert server.handlers.counters.over_limit == 1
    server.node("g1")
    assert [a.subject for a in connection.answers()] == ["second", "first"]
    server.ask(connection, "second")
    assert [group.name for group in connection.answers()[2].broker_groups] == ["g1"]
    assert len(server.handlers.registrations) == 1


def test_all_connections_together_have_a_limit_too() -> None:
    server = Server(RegistrationLimits(total_max=2))
    server.node("g1")
    connections = [FakeConnection(number) for number in range(3)]
    for connection in connections:
        server.ask(connection, "orders")
        assert len(connection.answers()) == 1
    assert (len(server.handlers.registrations), server.handlers.counters.over_limit) == (2, 1)


@pytest.mark.parametrize(
    "limits", [RegistrationLimits(pending_max=1), RegistrationLimits(pending_per_connection_max=1)]
)
def test_held_registrations_have_a_limit_and_those_over_it_are_answered_twice(limits: RegistrationLimits) -> None:
    server, connection = Server(limits), FakeConnection()
    server.ask(connection, "first")
    server.ask(connection, "second")
    assert [(a.subject, a.broker_groups) for a in connection.answers()] == [("second", ())]
    assert server.handlers.registrations.pending_count == 1
    server.node("g1")
    # The one that got an empty answer is indexed, so its route is pushed.
    assert [a.subject for a in connection.answers()] == ["second", "first"]
    assert len(connection.pushed) == 1
    assert server.handlers.registrations.pending_count == 0


def test_registrations_that_are_not_refreshed_make_room() -> None:
    limits = RegistrationLimits(per_connection_max=2)
    server, connection = Server(limits), FakeConnection()
    server.node("g1")
    server.ask(connection, "old")
    server.ask(connection, "used")
    server.clock.advance(limits.stale_seconds)
    server.ask(connection, "used")
    server.ask(connection, "new")
    assert server.handlers.counters.over_limit == 1, "neither is stale yet"
    server.clock.advance(1)
    server.ask(connection, "new")
    assert server.handlers.counters.over_limit == 1
    server.node("g1", state=3)
    assert len(connection.pushed) == 2


def test_a_held_registration_is_not_removed_as_stale() -> None:
    limits = RegistrationLimits(per_connection_max=2)
    server, connection = Server(limits), FakeConnection()
    server.ask(connection, "waits")
    server.clock.advance(limits.stale_seconds + 1)
    server.ask(connection, "new")
    server.node("g1")
    assert {a.subject for a in connection.answers()} == {"waits", "new"}


def test_a_held_request_keeps_no_receive_buffer() -> None:
    server, connection = Server(), FakeConnection()
    server.ask(connection, "orders")
    server.node("g1")
    ((frame, _, _),) = connection.replies
    assert (len(frame.body), len(frame.buffer)) == (0, 0)
    assert connection.answers()[0].subject == "orders"


def test_a_held_registration_that_is_repeated_is_answered_once() -> None:
    server, connection = Server(), FakeConnection()
    server.ask(connection, "orders")
    server.ask(connection, "orders")
    assert len(connection.dropped) == 1
    server.node("g1")
    assert len(connection.answers()) == 1
    assert server.handlers.registrations.pending_count == 0


def test_nothing_is_left_of_closed_connections() -> None:
    server = Server()
    server.node("g1")
    registrations = server.handlers.registrations
    for number in range(100):
        connection = FakeConnection(number)
        for client_type in (*ClientType, 9):
            server.ask(connection, f"s{number}", client_type, "g")
        server.node("g1", state=(1, 3)[number % 2])
        connection.close()
        server.settle()
    assert (len(registrations), registrations._clients, registrations._by_subject) == (0, {}, {})
    assert registrations.pending_count == 0
    assert list(registrations.delay) == []


def test_registrations_that_arrive_together_are_spread_over_turns_of_the_event_loop() -> None:
    server, connection, others = Server(), FakeConnection(), FakeConnection(1)
    server.node("g1")
    for number in range(2 * REGISTERED_PER_BATCH + 1):
        server.ask(connection, f"s{number}")
    assert len(connection.replies) == REGISTERED_PER_BATCH
    server._handle(others, Command.HEARTBEAT, b"")
    assert len(others.replies) == 1, "other requests do not wait for registrations"
    turns = server.turns
    server.settle()
    subjects = [answer.subject for answer in connection.answers()]
    assert subjects == [f"s{number}" for number in range(2 * REGISTERED_PER_BATCH + 1)]
    assert server.turns - turns == 3, "two with registrations, and one that finds none"


def test_registrations_that_wait_for_their_turn_are_dropped_with_their_connection() -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1")
    for number in range(REGISTERED_PER_BATCH + 1):
        server.ask(connection, f"s{number}")
    connection.close()
    server.settle()
    assert len(server.handlers.registrations) == 0


def test_an_error_of_ours_in_a_registration_is_answered_and_ends_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    server, connection = Server(), FakeConnection()
    reported: list[Exception] = []
    monkeypatch.setattr(connection, "report", reported.append, raising=False)
    monkeypatch.setattr(server.handlers, "_ensure_route", {"s1": None}.__getitem__)
    for subject in ("s0", "s1"):
        server.ask(connection, subject)
    assert [type(error) for error in reported] == [KeyError]
    assert [code for _, code, _ in connection.replies] == [ResponseCode.BROKER_ERROR], "the other one is held"


def test_registrations_of_closed_connections_are_removed_in_later_turns() -> None:
    server, connections = Server(), [FakeConnection(number) for number in range(2)]
    server.node("g1")
    for connection in connections:
        for number in range(REMOVED_PER_BATCH):
            server.ask(connection, f"s{number}")
        server.settle()
    for connection in connections:
        connection.close()
    assert len(server.handlers.registrations) == REMOVED_PER_BATCH
    checks = server.handlers.counters.route_checks
    server.node("g1", state=3)
    assert server.handlers.counters.route_checks == checks, "nothing is checked or pushed of a closed connection"
    assert [connection.pushed for connection in connections] == [[], []]
    assert len(server.handlers.registrations) == 0


def test_a_node_s_previous_connection_is_closed() -> None:
    """A heartbeat that the network delays is not applied after those of the next connection."""
    server, connections = Server(), [FakeConnection(number) for number in range(3)]
    for connection in connections:
        server.node("g1", connection=connection)
        server.node("g1", connection=connection)
    assert [connection.is_closed for connection in connections] == [True, True, False]
    server.node("g1", port=2, connection=FakeConnection(3))
    assert not connections[2].is_closed, "a refused registration closes nothing"


def test_a_connection_that_closes_before_its_check_gets_nothing() -> None:
    server, connection = Server(), FakeConnection()
    server.ask(connection, "orders")
    server.node("g1", settle=False)
    connection.close()
    before = server.handlers.counters.route_checks
    server.settle()
    assert (connection.replies, connection.pushed) == ([], [])
    assert server.handlers.counters.route_checks == before


def test_a_further_delay_group_is_not_pushed_to_clients_that_have_enough() -> None:
    server = Server()
    for number in range(3):
        server.node(f"d{number}", kind="delay", port=number + 1)
    connections = [FakeConnection(number) for number in range(20)]
    for connection in connections:
        server.ask(connection, "orders", ClientType.DELAY_PRODUCER)
    server.node("d9", kind="delay", port=9)
    assert [connection.pushed for connection in connections] == [[]] * 20
    users = [c for c in connections if "d0" in {group.name for group in c.answers()[0].broker_groups}]
    assert 0 < len(users) < 20
    server.node("d0", kind="delay", port=1, state=4)
    assert [len(connection.pushed) for connection in connections] == [int(c in users) for c in connections]


def test_a_client_in_a_loop_does_not_write_the_log_at_its_own_rate(caplog: pytest.LogCaptureFixture) -> None:
    server, connection = Server(), FakeConnection()
    for _ in range(500):
        server.ask(connection, "or/ders")
        server._handle(connection, 99, b"")
        server._handle(connection, Command.NODE_REGISTER, b"x")
    assert len(caplog.records) == 3
    assert sum(server.handlers.counters.bad_requests.values()) == 1_000


# --- producers while every group refuses sends (F-5) ---

READ_WRITE, READ_ONLY, OFFLINE = 1, 2, 4


def sent_groups(connection: FakeConnection) -> list[list[tuple[str, int]]]:
    """(name, state) of the broker groups of each answer."""
    return [[(group.name, group.state) for group in answer.broker_groups] for answer in connection.answers()]


@pytest.mark.parametrize(
    ("kind", "client_type"), [("broker", ClientType.PRODUCER), ("delay", ClientType.DELAY_PRODUCER)]
)
def test_a_producer_is_sent_the_groups_that_refuse_sends_when_every_group_does(kind: str, client_type: int) -> None:
    """Their answers have the reason, as for a producer that was running; clients do not send to groups in state read_only."""
    server, connection = Server(), FakeConnection()
    for port, group in enumerate(("g1", "g2", "g3"), 1):
        server.node(group, kind=kind, state=READ_ONLY, port=port)
    server.ask(connection, "orders", client_type)
    (groups,) = sent_groups(connection)
    assert groups == [("g1", READ_WRITE), ("g2", READ_WRITE)], "as many as of a subject without a route"
    assert server.directory.routes == {}


@pytest.mark.parametrize("client_type", [ClientType.CONSUMER, ClientType.OTHER])
def test_other_clients_are_not_sent_groups_for_their_refusals(client_type: int) -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1", state=READ_ONLY)
    server.ask(connection, "orders", client_type, "g")
    assert sent_groups(connection) in ([], [[]])


def test_a_subject_with_a_route_is_sent_to_its_own_groups() -> None:
    server, running, starting = Server(), FakeConnection(1), FakeConnection(2)
    server.node("g1", port=1)
    server.ask(running, "orders")
    server.node("g2", state=READ_ONLY, port=2)
    server.node("g1", state=READ_ONLY, port=1)
    server.ask(starting, "orders")
    assert sent_groups(starting) == [[("g1", READ_WRITE)]]
    assert running.pushed == [], "it has that route"


def test_a_producer_waits_while_a_group_is_offline_because_it_may_return_with_space() -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1", state=READ_ONLY, port=1)
    server.node("g2", state=OFFLINE, port=2)
    server.ask(connection, "orders")
    assert connection.replies == []
    server.node("g2", state=READ_WRITE, port=2)
    assert sent_groups(connection) == [[("g2", READ_WRITE)]]


def test_a_producer_that_waited_is_answered_when_the_last_group_refuses_sends_too() -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1", state=READ_ONLY, port=1)
    server.node("g2", state=OFFLINE, port=2)
    server.ask(connection, "orders")
    server.node("g2", state=READ_ONLY, port=2)
    assert sent_groups(connection) == [[("g1", READ_WRITE), ("g2", READ_WRITE)]]


@pytest.mark.parametrize("state", [OperatorState.READ_ONLY, OperatorState.DRAINING, OperatorState.UNAPPROVED])
def test_groups_that_an_operator_took_out_do_not_count(state: OperatorState) -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1", port=1)
    live = server.directory.groups["g1"]
    live.group = replace(live.group, operator_state=state)
    server.ask(connection, "orders")
    assert connection.replies == []
    server.node("g2", state=READ_ONLY, port=2)
    assert sent_groups(connection) == [[("g2", READ_WRITE)]]


def test_a_producer_is_not_sent_to_an_official_node_that_refuses_sends() -> None:
    """Official clients avoid a group for good after its refusal (T2)."""
    server, connection = Server(official_nodes=OfficialNodes.parse("java", needs_addresses=False)), FakeConnection()
    server.node("g1", state=READ_ONLY, port=1)
    server.official_node("java", state=READ_ONLY, port=2)
    server.ask(connection, "orders")
    assert connection.replies == []
    server.official_node("java", state=READ_WRITE, port=2)
    assert sent_groups(connection) == [[("java", READ_WRITE)]]


def test_a_producer_of_refusing_groups_is_sent_a_group_that_takes_messages_at_once() -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1", state=READ_ONLY, port=1)
    server.ask(connection, "orders")
    server.node("g2", port=2)
    assert server.directory.routes["orders"].broker_groups == ("g2",)
    assert len(connection.pushed) == 1
    assert list(server.handlers.registrations.unserved) == []
    server.node("g1", port=1)
    assert len(connection.pushed) == 1, "a group of other subjects"


def test_a_subject_over_the_limit_is_not_sent_to_groups_that_take_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaserver.memory.route_table.SUBJECTS_MAX", 0)
    server, connection = Server(), FakeConnection()
    server.node("g1")
    server.ask(connection, "orders")
    assert connection.replies == []


def test_an_illegal_subject_is_sent_to_a_refusing_group_as_well() -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1", state=READ_ONLY)
    server.ask(connection, "il legal")
    assert sent_groups(connection) == [[("g1", READ_WRITE)]], "an answer without groups blocks official clients (T3)"


# --- subjects of delayed producers ---


def test_a_subject_exists_as_soon_as_a_delayed_producer_registers() -> None:
    server, connection = Server(), FakeConnection()
    server.node("g1")
    server.node("d1", kind="delay")
    server.ask(connection, "orders", ClientType.DELAY_PRODUCER)
    assert server.directory.routes["orders"].broker_groups == ("g1",)
    assert sent_groups(connection) == [[("d1", READ_WRITE)]]


def test_a_subject_of_a_delayed_producer_that_left_exists_once_a_broker_group_takes_messages() -> None:
    server, connection = Server(), FakeConnection()
    server.node("d1", kind="delay")
    server.ask(connection, "orders", ClientType.DELAY_PRODUCER)
    connection.close()
    server.node("g1", state=READ_ONLY)
    assert server.directory.routes == {}
    server.node("g1")
    assert server.directory.routes["orders"].broker_groups == ("g1",)
    assert server.write_behind.pending, "it is stored"


def test_subjects_that_wait_for_a_broker_group_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metaserver.requests.client_handlers.UNROUTED_SUBJECTS_MAX", 2)
    server, connection = Server(), FakeConnection()
    server.node("d1", kind="delay")
    for subject in ("s1", "s2", "s3"):
        server.ask(connection, subject, ClientType.DELAY_PRODUCER)
    connection.close()
    server.node("g1")
    assert set(server.directory.routes) == {"s2", "s3"}
