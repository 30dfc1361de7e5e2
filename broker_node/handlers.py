"""Handles the frames of a broker's clients: one short function per command."""

from contextlib import suppress

from broker_node.delivery.client_table import ClientTable
from broker_node.delivery.delivery import Delivery
from broker_node.delivery.group_position import set_position, without_time
from broker_node.delivery.pulls import PullHandler
from broker_node.delivery.rejections import BrokerRejections, HandlerCounters
from broker_node.delivery.settlement import BeingSettled, Settlement, SettlementRunner
from broker_node.reads.bulk_read import BulkReads
from broker_node.storage.actions import StartReason
from broker_node.storage.disk_work import DiskWork, completed
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from broker_node.storage.subject_table import LimitReached
from qmq.errors import IllegalName, ProtocolError, QmqError
from qmq.protocol.codes import Command, ConsumeFrom, ResponseCode, SendResult
from qmq.protocol.commands import ConsumeManageRequest, SendFailure
from qmq.protocol.extensions import EnsureGroupRequest, EnsureGroupResponse, LeaveGroupRequest
from qmq.protocol.frames import Frame
from qmq.protocol.names import SUBJECT_OVER_LIMIT, check_group, check_subject, split_subject
from qmq.protocol.scan import Run
from qmq_node.commits.committer import Committer
from qmq_node.node.node import Node
from qmq_node.requests.handlers import Rejections, RequestHandlers
from qmq_node.requests.sends import Admission, SendCounters, SendHandler, failures_of
from qmq_node.server.connection import Connection


class BrokerSends(SendHandler):
    """Stores the messages of SEND requests."""

    def __init__(
        self,
        store: MessageStore,
        committer: Committer,
        admission: Admission,
        rejections: Rejections,
        counters: SendCounters,
        clients: ClientTable,
    ) -> None:
        super().__init__(store.log, committer, admission, rejections, counters)
        self._store = store
        self._clients = clients

    def append(self, run: Run, frame: Frame, connection: Connection, failures: list[SendFailure]) -> int:
        try:
            subject = self._store.subject(run.subject)
        except IllegalName as error:
            self.rejections.count("illegal_name", connection, str(error))
            result, remark = SendResult.SUBJECT_NOT_ASSIGNED, f"message rejected: {error}"
        except LimitReached as error:
            self.rejections.count("limit_reached", connection, str(error))
            result, remark = SendResult.STORE_ERROR, f"{SUBJECT_OVER_LIMIT}: {error}"
        else:
            self.counters.sends += run.count
            self._clients.sent(connection, frame, run)
            return self._store.append_run(subject, run, memoryview(frame.buffer), self._store.storing_ms())
        failures += failures_of(frame, run.raw_begins, result, remark)
        return -1


class Handlers(RequestHandlers):
    """Answers the frames of a broker's clients."""

    rejections: BrokerRejections

    def __init__(self, node: Node, store: MessageStore, delivery: Delivery) -> None:
        clock, committer, supervisor = node.clock, node.committer, node.supervisor
        self.counters = HandlerCounters()
        super().__init__(BrokerRejections(self.counters, clock, supervisor), node.auth)
        self._store = store
        self._delivery = delivery
        self._committer = committer
        self._supervisor = supervisor
        self.clients = ClientTable(clock)
        admission = node.registration.admission
        self.sends = BrokerSends(store, committer, admission, self.rejections, self.counters, self.clients)
        self.pulls = PullHandler(
            delivery, committer, clock, supervisor, self.rejections, self.counters, self.clients, self._after
        )
        self.polls, self.wake = self.pulls.polls, self.pulls.wake
        self.settlements = SettlementRunner(
            store, committer, supervisor, on_ended=delivery.settlements.ended, on_no_space=delivery.settlements.no_space
        )
        self.table |= {
            Command.SEND_MESSAGE: self.sends.handle,
            Command.PULL_MESSAGE: self.pulls.handle,
            Command.ACK_REQUEST: self._ack,
            Command.CONSUME_MANAGE: self._consume_manage,
            Command.ENSURE_GROUP: self._ensure_group,
            Command.LEAVE_GROUP: self._leave_group,
            Command.AUTHENTICATE: self.authenticate,
            **BulkReads(node, store).table(),
        }

    def failed(self, connection: Connection, frame: Frame, error: Exception) -> None:
        if isinstance(error, BeingSettled):
            self._after(error.settlement, connection, frame)
        else:
            super().failed(connection, frame, error)

    def _after(self, settlement: Settlement, connection: Connection, frame: Frame) -> None:
        """Take a request again once its consumer's settlement has ended."""

        def ended(error: QmqError | None) -> None:
            if error is None:
                self.handle(connection, frame)
                return
            self.rejections.count("settlement", connection, str(error))
            self.rejections.refuse(connection, frame)

        try:
            settlement.then(ended)
        except LimitReached as error:
            self.rejections.count("limit_reached", connection, str(error))
            self.rejections.refuse(connection, frame)
            return
        self.settlements.run(settlement)

    def synced(self, touched: list[Subject]) -> None:
        """New messages are visible."""
        for subject in touched:
            self.wake(subject.name)

    def hold(self) -> None:
        self.pulls.hold()

    def resume(self) -> None:
        self.pulls.resume()

    def stop(self) -> None:
        """Answer every waiting pull with nothing, and hold none any more."""
        self.rejections.is_stopping = True
        self.settlements.stop()
        self.pulls.stop()

    def _ack(self, connection: Connection, frame: Frame) -> None:
        request = self.pulls.known.ack(frame)
        if not (request.subject and request.group and request.consumer_id):
            raise ProtocolError("an ack without subject, group or consumer id")
        offset = self._delivery.acks.ack(request, connection)
        self.counters.acks += 1
        self._committer.when_synced(offset, lambda: connection.reply(frame, ResponseCode.SUCCESS), is_urgent=False)

    def _consume_manage(self, connection: Connection, frame: Frame) -> None:
        request = ConsumeManageRequest.decode(frame.body)
        if not (request.subject and request.group):
            connection.reply(frame, ResponseCode.PARAM_ERROR)
            return
        if request.where not in (ConsumeFrom.LATEST, ConsumeFrom.EARLIEST):
            connection.reply(frame, ResponseCode.SUCCESS)
            return
        check_subject(request.subject)
        check_group(request.group)
        subject = self._store.subject(request.subject)
        position = subject.visible_end if request.where == ConsumeFrom.LATEST else subject.begin
        group = self._store.start_group(subject, request.group, "", position, False, StartReason.RESET)
        self._committer.when_synced(group.progress.applied_at, lambda: connection.reply(frame, ResponseCode.SUCCESS))
        self.wake(subject.name)

    def _ensure_group(self, connection: Connection, frame: Frame) -> None:
        request = EnsureGroupRequest.decode(frame.body)
        check_subject(request.subject)
        check_group(request.group)
        is_retry = split_subject(request.subject).kind == "retry"
        if is_retry and request.start in ("earliest", "latest") and request.subject not in self._store.subjects:
            # Every group begins there, and the first retry makes the subject.
            connection.reply(frame, ResponseCode.SUCCESS, EnsureGroupResponse(True, 0).encode())
            return
        if not request.only_if_new and not self.is_trusted(connection, frame, f"reset of group {request.group}"):
            return
        if request.start != "time":
            # At once if possible: a pull that was sent with it comes after it.
            with suppress(DiskWork):
                self._answer_group(connection, frame, *self._set_now(request, request.start, request.value))
                return
        self._supervisor.background("set_group", self._set_group(connection, frame, request))

    async def _set_group(self, connection: Connection, frame: Frame, request: EnsureGroupRequest) -> None:
        """Make a group, or set its position, which has to be searched on the disk."""
        try:
            subject = self._store.subject(request.subject)
            start, value = await without_time(subject, request.start, request.value)
            group, is_new = await completed(lambda: self._set_now(request, start, value))
        except Exception as error:  # noqa: BLE001 - every error ends this request only
            self.failed(connection, frame, error)
        else:
            self._answer_group(connection, frame, group, is_new)

    def _set_now(self, request: EnsureGroupRequest, start: str, value: int) -> tuple[Group, bool]:
        """As `set_position`. The subject may have been removed, and the group made, during a search."""
        subject = self._store.subject(request.subject)
        group = subject.groups.get(request.group)
        if group is not None and request.only_if_new:
            return group, False
        return set_position(self._store, subject, request.group, start, value, request.broadcast)

    def _answer_group(self, connection: Connection, frame: Frame, group: Group, is_new: bool) -> None:
        progress = group.progress
        body = EnsureGroupResponse(is_new, progress.next_sequence).encode()
        self._committer.when_synced(progress.applied_at, lambda: connection.reply(frame, ResponseCode.SUCCESS, body))
        self.wake(progress.subject)

    def _leave_group(self, connection: Connection, frame: Frame) -> None:
        request = LeaveGroupRequest.decode(frame.body)
        self.pulls.leave((connection, request.subject, request.group, request.consumer_id))
        offset = -1
        subject = self._store.subjects.get(request.subject)
        group = subject.groups.get(request.group) if subject is not None else None
        consumer = group.progress.consumers.get(request.consumer_id) if group is not None else None
        if subject is not None and group is not None and consumer is not None:
            offset = self._delivery.settlements.leave(subject, group, consumer, connection)
        self._committer.when_synced(offset, lambda: connection.reply(frame, ResponseCode.SUCCESS))
