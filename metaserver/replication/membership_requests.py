"""class MembershipRequests: changes of broker groups' memberships that nodes request, and the memberships that are sent
to nodes."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from metaserver.memory.directory import Directory
from metaserver.memory.membership_wishes import MembershipWish, is_replicating
from metaserver.replication.membership_changes import MembershipAnswer, MembershipChanges
from metaserver.replication.membership_records import MembershipRecords
from qmq.errors import ProtocolError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import NodeRegisterResponse
from qmq.protocol.frames import FLAG_ONE_WAY, Frame, encode_request
from qmq.protocol.group_memberships import MembershipResponse, MembershipResult
from qmq.protocol.reasons import Code, Reason
from qmq.supervisor import Supervisor
from qmq_node.replication.rules.membership import ChangeInSync, Membership, Resignation
from qmq_node.server.connection import Connection

logger = logging.getLogger("qmq.meta.memberships")


@dataclass(eq=False, repr=False)
class MembershipRequests:
    """Answers masters that request a change of their group's membership, and sends memberships that changed to the
    nodes of the group."""

    _directory: Directory
    _changes: MembershipChanges
    _supervisor: Supervisor
    _connections: Mapping[str, Connection]
    """By node id: the connection of its newest accepted registration."""
    _save_memberships: Callable[[], Coroutine[Any, Any, None]]
    """Writes the route file, which has all memberships."""
    _problems: dict[str, str] = field(default_factory=dict, init=False)
    """By broker group, why the last change was not made; logged once."""

    def __post_init__(self) -> None:
        self._records = MembershipRecords(self._directory, self._save_memberships, self._supervisor, self._push)

    def change_in_sync(self, connection: Connection, frame: Frame) -> None:
        """Answer a CHANGE_IN_SYNC of a master. Raises ProtocolError."""
        change = ChangeInSync.decode(frame.body)
        self.check_sender(connection, change.broker_group, change.node_id)
        reason = (
            Reason.of(Code.NODE_WITH, node=change.member, why=change.reason)
            if change.reason
            else Reason.of(Code.NODE, node=change.member)
        )
        wish = MembershipWish(change.applied_to, f"{change.change}_in_sync", reason)
        self.make(change.broker_group, wish, connection, frame, lambda made: self._answer(connection, frame, made))

    def resign(self, connection: Connection, frame: Frame) -> None:
        """Answer a RESIGN of a master. It stays in sync unless it stops: its successor has all of its log. Raises ProtocolError."""
        request = Resignation.decode(frame.body)
        self.check_sender(connection, request.broker_group, request.node_id)
        live = self._directory.groups[request.broker_group]
        if not live.is_running(request.successor, self._directory.now):
            reason = f"node {request.successor} does not send heartbeats"
            self._answer(
                connection,
                frame,
                MembershipAnswer(MembershipResult.REFUSED, self._membership(request.broker_group), reason),
            )
            return
        boot_id, promotion_id = live.reports[request.successor].request.boot_id, self._directory.new_promotion_id()
        code = Code.STOPS_AND_SWITCHES_OVER if request.is_leaving else Code.SWITCHES_OVER
        reason = Reason.of(code, master=request.node_id, node=request.successor)
        wish = MembershipWish(
            lambda membership: request.applied_to(membership, boot_id, promotion_id), "resign", reason
        )
        self.make(request.broker_group, wish, connection, frame, lambda made: self._answer(connection, frame, made))

    def check_sender(self, connection: Connection, broker_group: str, node_id: str) -> None:
        """Raises ProtocolError unless the node has registered for the group on this connection."""
        live = self._directory.groups.get(broker_group)
        if live is None or node_id not in live.reports or self._connections.get(node_id) is not connection:
            raise ProtocolError(
                f"node {node_id[:40]!r} of broker group {broker_group[:40]!r} has not registered on this connection"
            )

    def make(
        self,
        name: str,
        wish: MembershipWish,
        connection: Connection,
        frame: Frame,
        then: Callable[[MembershipAnswer], None],
    ) -> None:
        """Change the membership of a group for a node, and call `then` unless its connection was closed meanwhile."""

        async def make() -> None:
            made = await self._made(name, wish)
            if not connection.is_closed:
                then(made)

        def ended(done: "asyncio.Task[None]") -> None:
            if not done.cancelled() and done.exception() is not None:
                connection.reply(frame, ResponseCode.BROKER_ERROR)

        self._supervisor.background("membership_change", make()).add_done_callback(ended)

    def start(self, name: str, wish: MembershipWish, then: Callable[[str], None]) -> None:
        """Change the membership of a group, and call `then` in any case: with "" if it is changed, and the reason if
        that is not known."""

        async def make() -> None:
            problem = "it failed"
            try:
                made = await self._made(name, wish)
                problem = "" if made.result is MembershipResult.DONE else made.reason
            finally:
                then(problem)

        self._supervisor.background("membership_change", make())

    async def _made(self, name: str, wish: MembershipWish) -> MembershipAnswer:
        own, place = self._membership(name), self._directory.newest_place(name)

        def change(membership: Membership) -> Membership:
            if not wish.is_recovery:
                membership.check_not_contradicted(own)
            return wish.change(membership)

        made = await self._changes.make(name, replace(wish, change=change), place)
        if made.lost is not None:
            self._directory.learn_log_end(made.lost.node_id, made.lost.stored)
        if made.result is MembershipResult.DONE:
            self._problems.pop(name, None)
        elif self._problems.get(name) != made.reason:
            self._problems[name] = made.reason
            logger.warning("%s of broker group %s is not made (%s): %s", wish.action, name, wish.reason, made.reason)
        # Only here may groups be gone for which a problem is kept.
        self._problems = {name: text for name, text in self._problems.items() if name in self._directory.groups}
        if made.membership is not None:
            await self._records.recorded(name)
        return made

    def record_known(self, name: str, place: tuple[int, int], then: Callable[[], None]) -> None:
        """Record in the database that a newer membership of a group is known than the stored one, and call `then` in any case."""

        async def record() -> None:
            try:
                await self._changes.record_known(name, place)
            finally:
                then()

        self._supervisor.background("known_place", record())

    def for_node(self, name: str, answer: NodeRegisterResponse) -> NodeRegisterResponse:
        """Return the answer to a node of a group; without the membership if that is not in the database and the route
        file yet. It is sent when it is."""
        if answer.membership is None:
            return answer
        if not self._directory.groups[name].is_stored:
            self.stored(name)
            return replace(answer, membership=None)
        if self._records.is_recorded(name):
            return answer
        if not self._records.is_recording(name):
            self._records.record([name])
        return replace(answer, membership=None)

    def stored(self, name: str) -> None:
        """The membership of a group may be stored for the first time: read it. Another metaserver may have stored
        another one before."""
        live = self._directory.groups.get(name)
        if live is not None and not live.is_stored:
            self._supervisor.background("first_membership", self._changes.read(name))

    def push_changed(self) -> None:
        """Send each membership that changed since the last call to the nodes of its group that have replication."""
        groups = self._directory.groups
        changed = [
            name for name in self._directory.take_changed_memberships() if name in groups and groups[name].is_stored
        ]
        self._records.record(name for name in changed if groups[name].has_replicating_node)

    def _push(self, names: list[str]) -> None:
        for name in names:
            live = self._directory.groups.get(name)
            if live is None or not self._records.is_recorded(name):
                continue
            logger.info("broker group %s has master %s, epoch %d, in sync: %s", name, *_summary(live.membership))
            body = self._directory.membership_on_wire(live).encode()
            for node_id, report in live.reports.items():
                connection = self._connections.get(node_id)
                if connection is not None and is_replicating(report.request):
                    connection.push(encode_request(Command.ROLE, 0, body, flag=FLAG_ONE_WAY))

    def _membership(self, name: str) -> Membership:
        return self._directory.groups[name].membership

    def _answer(self, connection: Connection, frame: Frame, made: MembershipAnswer) -> None:
        membership = None
        if made.membership is not None:
            membership = self._directory.membership_on_wire(
                self._directory.groups[made.membership.broker_group], made.membership
            )
        connection.reply(frame, ResponseCode.SUCCESS, MembershipResponse(made.result, made.reason, membership).encode())


def _summary(membership: Membership) -> tuple[str, int, str]:
    return membership.master or "none", membership.epoch, ", ".join(membership.in_sync) or "none"
