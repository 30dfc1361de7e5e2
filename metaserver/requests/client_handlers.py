"""What a metaserver answers and pushes to clients: the groups that serve their subjects.

Traps of the official client that decide what is answered (docs/reference/wire.md, 12): an answer without a usable group
blocks producers indefinitely and a lost first answer blocks consumers (T1, T3), so a registration without a usable group is
held and answered when one appears. Timestamps never fall (T7). Subject and group are echoed (T19).
"""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import ClientSeen, Route
from metaserver.memory.directory import Directory
from metaserver.memory.live_groups import Observed, Reloaded
from metaserver.requests.registrations import Registration, RegistrationLimits, Registrations, SentRoute, is_pushed
from metaserver.requests.sliced_queue import CallSoon, SlicedQueue
from metaserver.stored.write_behind import WriteBehind
from qmq.clock import Clock
from qmq.errors import IllegalName
from qmq.protocol.codes import ClientType, Command, ResponseCode
from qmq.protocol.commands import BrokerGroupRoute, ClientRegisterRequest, ClientRegisterResponse
from qmq.protocol.frames import FLAG_RESPONSE, Frame, encode_request
from qmq.protocol.limited_kinds import NAME_CHARS_MAX
from qmq.protocol.names import check_new_subject, check_subject, hidden_text_problem, split_subject
from qmq_node.process.counters import counted, counted_by
from qmq_node.requests.handlers import Rejections, RequestCounters, RequestHandlers
from qmq_node.server.connection import Connection
from qmq_node.server.connection_auth import ConnectionAuth

logger = logging.getLogger("qmq.meta")

REGISTERED_PER_BATCH = 100
"""Registrations of clients that are worked on in one turn of the event loop, however many arrive."""
CHECKS_PER_BATCH = 200
"""Registrations compared with their route in one turn of the event loop; heartbeats are answered in between."""
SUBJECTS_PER_BATCH = 2_000
"""Changed subjects whose registrations are looked up in one turn of the event loop."""
UNROUTED_SUBJECTS_MAX = 1_000
"""Subjects that wait for a broker group; a further one replaces the oldest."""


@dataclass(slots=True)
class MetaCounters(RequestCounters):
    client_registers: int = counted("client_registers", "Registrations of clients (clientRegisterCount)")
    node_registers: int = counted("node_registers", "Registrations of nodes (brokerRegisterCount)")
    policies_sent: int = counted("policies_sent", "Policies sent to nodes")
    pushes: int = counted("pushes", "Routes pushed to clients")
    route_checks: int = counted("route_checks", "Registrations compared with a changed route")
    held: int = counted("delayed_registrations", "Registrations answered only when a broker group became usable")
    over_limit: int = counted("registrations_over_limit", "Registrations that receive no pushed routes")
    illegal: int = counted("illegal_names", "Registrations with invalid names")
    refused_nodes: Counter[str] = counted_by("code", "refused_registrations", "Rejected registrations of nodes")


class ClientHandlers(RequestHandlers):
    """Answers the registrations of clients, and pushes to them the routes that change."""

    def __init__(
        self,
        directory: Directory,
        write_behind: WriteBehind,
        clock: Clock,
        *,
        limits: RegistrationLimits | None = None,
        auth: ConnectionAuth | None = None,
        call_soon: CallSoon | None = None,
    ) -> None:
        self.counters = MetaCounters()
        super().__init__(Rejections(self.counters, clock, logger), auth)
        self._directory = directory
        self._write_behind = write_behind
        self._clock = clock
        self._call_soon = call_soon or asyncio.get_running_loop().call_soon
        self.registrations = Registrations(clock, limits, self._call_soon)
        self._requests = SlicedQueue(self._client_register, REGISTERED_PER_BATCH, self._call_soon)
        self._changed_subjects: dict[str, None] = {}
        """Subjects whose registrations are to be added to `_unchecked`, in the order of the changes."""
        self._unchecked: dict[Registration, None] = {}
        """Registrations whose route may have changed, in the order of the changes."""
        self._is_check_scheduled = False
        self._unrouted: dict[str, None] = {}
        """Subjects of clients that registered while no broker group could get the subject, oldest first."""
        self._timestamp_ms = 0

    def _client_register(self, received: tuple[Connection, Frame]) -> None:
        connection, frame = received
        if connection.is_closed:
            return
        try:
            self._register_client(connection, frame)
        except Exception as error:  # noqa: BLE001 - every error ends this request only
            self.failed(connection, frame, error)

    def _register_client(self, connection: Connection, frame: Frame) -> None:
        request = ClientRegisterRequest.decode(frame.body)
        self.counters.client_registers += 1
        subject = split_subject(request.subject).subject
        try:
            check_subject(request.subject)
            if subject not in self._directory.routes:
                check_new_subject(subject)
        except IllegalName as error:
            # An error code, or an answer without groups, would block a sender thread of the official client indefinitely,
            # and there are three (T3). So it is sent to brokers, which refuse the message with the reason.
            self.counters.illegal += 1
            self.rejections.log("illegal_subject", connection, str(error))
            groups = self._directory.any_usable(request.client_type)
            groups = groups or self._directory.refusing(subject, request.client_type)
            connection.reply(frame, ResponseCode.SUCCESS, self._response(request, groups).encode())
            return
        if is_pushed(request.client_type):
            # Of a delayed producer's subject as well: it has to exist, and to have an owner, before its messages are due.
            self._ensure_route(subject)
        if request.client_id:
            group = request.group[:NAME_CHARS_MAX]
            client_id, app = request.client_id[: 2 * NAME_CHARS_MAX], request.app[:NAME_CHARS_MAX]
            agent = request.agent[:NAME_CHARS_MAX]
            client_type = request.client_type if request.client_type in set(ClientType) else ClientType.OTHER
            problem = next(filter(None, map(hidden_text_problem, (group, client_id, app, agent))), "")
            if problem:
                self.counters.illegal += 1
                self.rejections.log(
                    "illegal_client", connection, f"a client of {subject} is not stored: a name {problem}"
                )
            else:
                self._write_behind.client(ClientSeen(subject, int(client_type), group, client_id, app, agent))
        self._answer(connection, frame, request, subject)

    def _ensure_route(self, subject: str) -> None:
        """Create a subject's route, or extend one that no live broker group serves."""
        route, is_new = self._directory.route_of(subject)
        if route is None:
            self._unrouted[subject] = None
            if len(self._unrouted) > UNROUTED_SUBJECTS_MAX:
                del self._unrouted[next(iter(self._unrouted))]
            return
        self._unrouted.pop(subject, None)
        if not is_new:
            return
        self._write_behind.route(route)
        logger.info("subject %s: served by %s (version %d)", subject, ", ".join(route.broker_groups), route.version)
        if route.version > 1:
            self.routes_changed({subject})

    def _answer(self, connection: Connection, frame: Frame, request: ClientRegisterRequest, subject: str) -> None:
        """Reply, or hold the request until a broker group is usable; over a limit, reply in any case (T1)."""
        groups, is_served = self._groups(subject, request.client_type)
        registration = self.registrations.put(connection, request, subject)
        if registration is not None:
            older = self.registrations.release(registration)
            if older is not None:
                connection.drop(older)
            if not is_served:
                self.registrations.unserved[registration] = None
            if not groups and self.registrations.hold(registration, frame):
                self.counters.held += 1
                what = "delay group" if registration.is_delay else "usable broker group"
                self.rejections.log(
                    "held",
                    connection,
                    f"no {what} for subject {subject} yet; the response is delayed until there is one",
                )
                return
            sent = _sent_route(groups)
            if registration.last_sent != sent:
                registration.last_sent = sent
        if is_pushed(request.client_type) and (registration is None or not groups):
            self.counters.over_limit += 1
        connection.reply(frame, ResponseCode.SUCCESS, self._response(request, groups).encode())

    def _groups(
        self, subject: str, client_type: int, keep: Collection[str] = ()
    ) -> tuple[tuple[BrokerGroupRoute, ...], bool]:
        """The groups that a client of a real subject is sent, or those that refuse its messages; and whether it can use them."""
        usable = self._directory.usable(subject, client_type, keep)
        return usable or self._directory.refusing(subject, client_type), bool(usable)

    def _response(self, request: ClientRegisterRequest, groups: tuple[BrokerGroupRoute, ...]) -> ClientRegisterResponse:
        self._timestamp_ms = max(self._timestamp_ms, self._clock.wall_ms())
        return ClientRegisterResponse(
            self._timestamp_ms, request.subject, request.group, True, request.client_type, groups
        )

    def routes_changed(self, subjects: Iterable[str]) -> None:
        """Push to the clients of these real subjects, where the route differs from the last one sent."""
        self._changed_subjects.update(dict.fromkeys(subjects))
        self._check_soon(())

    def _check_soon(self, registrations: Iterable[Registration]) -> None:
        self._unchecked.update(dict.fromkeys(registrations))
        if (self._unchecked or self._changed_subjects) and not self._is_check_scheduled:
            self._is_check_scheduled = True
            self._call_soon(self._check_some)

    def _check_some(self) -> None:
        self._is_check_scheduled = False
        if len(self._unchecked) < CHECKS_PER_BATCH:
            for subject in list(itertools.islice(self._changed_subjects, SUBJECTS_PER_BATCH)):
                del self._changed_subjects[subject]
                self._unchecked.update(dict.fromkeys(self.registrations.of_subject(subject)))
                if len(self._unchecked) >= CHECKS_PER_BATCH:
                    break
        some = list(itertools.islice(self._unchecked, CHECKS_PER_BATCH))
        for registration in some:
            del self._unchecked[registration]
        # Before the work: an error in it ends this turn, not the following ones.
        self._check_soon(())
        for registration in some:
            if not (registration.is_removed or registration.connection.is_closed):
                self._check(registration)

    def _check(self, registration: Registration) -> None:
        self.counters.route_checks += 1
        request, last_sent = registration.request, registration.last_sent
        if registration in self.registrations.unserved:
            self._ensure_route(registration.subject)
        keep = frozenset(name for name, _, _ in last_sent or ())
        groups, is_served = self._groups(registration.subject, request.client_type, keep)
        # A route without a group is not pushed: the client keeps trying its old one, which may recover.
        if not groups:
            return
        pending = self.registrations.release(registration)
        if not is_served:
            self.registrations.unserved[registration] = None
        if pending is None and last_sent == _sent_route(groups):
            return
        registration.last_sent = _sent_route(groups)
        body = self._response(request, groups).encode()
        if pending is not None:
            registration.connection.reply(pending, ResponseCode.SUCCESS, body)
            return
        self.counters.pushes += 1
        registration.connection.push(
            encode_request(ResponseCode.SUCCESS, 0, body, flag=FLAG_RESPONSE, request_code=Command.CLIENT_REGISTER)
        )

    def reloaded(self, reloaded: Reloaded) -> None:
        """Push what operators, or other metaservers, changed."""
        for route in reloaded.to_store:
            self._write_behind.route(route)
        self.routes_changed(sorted(reloaded.subjects))
        self._groups_changed(sorted(reloaded.broker_groups), "now")

    def peers_observed(self, observed: Observed) -> None:
        """Push the states that other metaservers stored, and store again what they contradict."""
        self._write_behind.discard(observed.replaced)
        for group in observed.contradicted:
            self._write_behind.group(group, "its master sends heartbeats")
        self._groups_changed(observed.broker_groups, "as another metaserver reports")

    def _groups_changed(self, names: Iterable[str], why: str) -> None:
        for name in names:
            logger.info("broker group %s is %s %s", name, self._directory.groups[name].state, why)
            self._group_changed(name)

    def route_stored(self, written: Route, stored: Route) -> None:
        """Use the route that the database holds instead of the one that was to be written, and push it.

        Producers may have sent messages to the groups that only this metaserver gave the subject. So they are added to the stored
        route: otherwise no consumer would read them.
        """
        route = self._directory.with_unstored(stored)
        if written == stored:
            return
        if route != stored:
            self._write_behind.route(route)
        self._directory.put_route(route)
        self.routes_changed({route.subject})

    def _group_changed(self, name: str) -> None:
        if self._directory.groups[name].group.kind is GroupKind.DELAY:
            self._check_soon(self.registrations.delay)
            return
        if self._directory.groups[name].state is GroupState.READ_WRITE:
            for subject in list(self._unrouted):
                self._ensure_route(subject)
        self._check_soon(self.registrations.unserved)
        self.routes_changed(self._directory.subjects_of(name))

    def expire(self) -> None:
        """Take silent groups offline and push the routes of their subjects."""
        for group in self._directory.expire():
            reason = self._directory.groups[group.name].reason
            logger.warning("broker group %s is offline: %s", group.name, reason)
            self._write_behind.group(group, reason)
            self._group_changed(group.name)


def _sent_route(groups: tuple[BrokerGroupRoute, ...]) -> SentRoute:
    return frozenset((group.name, group.master, group.state) for group in groups)
