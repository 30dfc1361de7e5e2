"""A short function per command: decode, decide, append, answer once it is on disk."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from broker_node.actions import StartReason
from broker_node.bulk_read import BulkReads
from broker_node.consumer_connections import ConsumerConnections
from broker_node.delivery import PULL_BYTES_MAX, Delivered, Delivery
from broker_node.long_poll import LongPolls, ParkedPull
from broker_node.message_log import ColdRead
from broker_node.pull_gate import PullGate
from broker_node.reset import set_position
from broker_node.settlement import BeingSettled, Settlement, SettlementRunner
from broker_node.store import LimitReached, MessageStore
from broker_node.subject import Subject
from qmq.clock import Clock
from qmq.daemon.committer import Committer
from qmq.daemon.policy import NodePolicy
from qmq.daemon.send_gate import Refusal, SendGate
from qmq.errors import IllegalName, LogError, NoSpace, ProtocolError, QmqError
from qmq.net.connection_auth import ConnectionAuth
from qmq.net.log_limiter import LogLimiter
from qmq.net.server import Connection
from qmq.protocol.codes import VERSIONS_SERVED, Command, ConsumeFrom, ResponseCode, SendResult
from qmq.protocol.commands import (
    PULL_RESPONSE_HEAD,
    AckRequest,
    ConsumeManageRequest,
    PullRequest,
    SendFailure,
    encode_send_response,
)
from qmq.protocol.extensions import EnsureGroupRequest, EnsureGroupResponse, LeaveGroupRequest
from qmq.protocol.frames import MESSAGE_BYTES_MAX, Frame
from qmq.protocol.names import (
    SUBJECT_OVER_LIMIT,
    check_consumer_id,
    check_group,
    check_subject,
    retry_subject,
    split_subject,
)
from qmq.protocol.raw import RawView
from qmq.protocol.scan import BadChecksum, Run, scan_batch
from qmq.supervisor import Supervisor

logger = logging.getLogger("qmq.broker.handlers")

HOLD_SECONDS_MAX = 30.0
"""Longest a pull is held: clients close a connection after 120 s of silence (trap T5)."""
ERROR_HOLD_SECONDS = 1.0
"""A pull refused for its parameters is answered this late: push consumers ask again at once (trap T4)."""
PULL_SEQUENCE_MAX = 1 << 62
"""A pull that claims to have received beyond this can't be honest, and its sequences could not be numbered on."""
UNSYNCED_BYTES_MAX = 64 << 20
"""Bytes appended and not yet on disk; above it sends are answered busy."""
COLD_READS_MAX = 64
"""Pulls that wait for the disk at a time; more are answered with nothing and ask again."""

REASONS: dict[type[Exception], str] = {
    BadChecksum: "bad_crc",
    IllegalName: "illegal_name",
    ProtocolError: "undecodable",
    LimitReached: "limit_reached",
    NoSpace: "no_space",
    LogError: "log_failed",
    OSError: "unreadable",
}
"""Errors that a request may meet, and the reason each is counted under. The first that fits counts."""


@dataclass(slots=True)
class HandlerCounters:
    """Counts since start, for metrics."""

    sends: int = 0
    send_failures: Counter[str] = field(default_factory=Counter)
    pulls: int = 0
    acks: int = 0
    bad_requests: Counter[str] = field(default_factory=Counter)
    cold_pulls: int = 0
    policy_refused_messages: Counter[str] = field(default_factory=Counter)
    policy_refused_pulls: int = 0
    paused_pulls: int = 0
    full_pulls: int = 0
    """Pulls of consumers with as many messages in flight as they may have."""


class Handlers:
    """Answers the frames of a broker's clients.

    `refuse_sends` says why sends are refused at the moment (read only, disk full), or "" when they are welcome; `send_gate`
    which subjects' messages are refused though.
    """

    def __init__(
        self,
        store: MessageStore,
        delivery: Delivery,
        committer: Committer,
        clock: Clock,
        refuse_sends: Callable[[], str],
        send_gate: SendGate,
        reading: BulkReads,
        supervisor: Supervisor,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        auth: ConnectionAuth | None = None,
    ) -> None:
        self._store = store
        self._auth = auth or ConnectionAuth(None)
        self._delivery = delivery
        self._committer = committer
        self._clock = clock
        self._refuse_sends = refuse_sends
        self._send_gate = send_gate
        self._message_bytes_max = message_bytes_max
        self._pull_gate = PullGate()
        self._supervisor = supervisor
        self.polls = LongPolls(clock, supervisor, on_expired=self._expired, on_due=self.wake)
        self.counters = HandlerCounters()
        self.consumer_connections = ConsumerConnections()
        self.settlements = SettlementRunner(
            store, committer, supervisor, on_ended=delivery.settled, on_no_space=delivery.no_space
        )
        self._cold: dict[asyncio.Future[None], None] = {}
        self._log_limiter = LogLimiter()
        self._is_stopping = False
        self._table: dict[int, Callable[[Connection, Frame], None]] = {
            Command.SEND_MESSAGE: self._send,
            Command.PULL_MESSAGE: self._pull,
            Command.ACK_REQUEST: self._ack,
            Command.CONSUME_MANAGE: self._consume_manage,
            Command.HEARTBEAT: self._heartbeat,
            Command.ENSURE_GROUP: self._ensure_group,
            Command.LEAVE_GROUP: self._leave_group,
            Command.AUTHENTICATE: self._authenticate,
            **reading.table(),
        }

    def handle(self, connection: Connection, frame: Frame) -> None:
        """One request frame; the answer may come later, in any order."""
        handler = self._table.get(frame.code)
        if handler is None:
            self._bad("unknown_command", connection, f"command {frame.code}")
            connection.reply(frame, ResponseCode.UNKNOWN_CODE)
            return
        if frame.version not in VERSIONS_SERVED:
            self._bad("unknown_version", connection, f"version {frame.version}")
            self._refuse(connection, frame)
            return
        try:
            handler(connection, frame)
        except BeingSettled as wait:
            self._after(wait.settlement, connection, frame)
        except Exception as error:  # noqa: BLE001 - every error ends this request only
            self._failed(connection, frame, error)

    def _failed(self, connection: Connection, frame: Frame, error: Exception) -> None:
        """Answer a request that raised. The one place for it: a request may fail at once, when woken or when its read ends.

        An error of the request, a limit or the disk is counted by its reason; any other is an error of ours.
        """
        for kind, reason in REASONS.items():
            if isinstance(error, kind):
                self._bad(reason, connection, str(error))
                break
        else:
            connection.report(error)
        is_undecodable = isinstance(error, ProtocolError) and not isinstance(error, BadChecksum | IllegalName)
        self._refuse(connection, frame, ResponseCode.BROKER_ERROR if is_undecodable else ResponseCode.NO_MESSAGE)

    def _after(self, settlement: Settlement, connection: Connection, frame: Frame) -> None:
        """Take a request again once its consumer's settlement has ended."""

        def ended(error: QmqError | None) -> None:
            if error is None:
                self.handle(connection, frame)
                return
            self._bad("settlement", connection, str(error))
            self._refuse(connection, frame)

        try:
            settlement.then(ended)
        except LimitReached as error:
            self._bad("limit_reached", connection, str(error))
            self._refuse(connection, frame)
            return
        self.settlements.run(settlement)

    def _bad(self, reason: str, connection: Connection, what: str) -> None:
        """Count a bad request, and log it with a back-off for each reason and host."""
        self.counters.bad_requests[reason] += 1
        self._log_limiter.warning(logger, connection.peer, reason, what, self._clock.monotonic())

    def _refuse(self, connection: Connection, frame: Frame, pull_code: ResponseCode = ResponseCode.NO_MESSAGE) -> None:
        """Answer a request that can't be answered: a pull with `pull_code`, and late, because its sender asks again at once."""
        code = pull_code if frame.code == Command.PULL_MESSAGE else ResponseCode.BROKER_ERROR
        if frame.code == Command.PULL_MESSAGE and not self._is_stopping:
            self._supervisor.later(ERROR_HOLD_SECONDS, "held_refusal", lambda: connection.reply(frame, code))
        else:
            connection.reply(frame, code)

    # --- send ------------------------------------------------------------------------------------------------------

    def _send(self, connection: Connection, frame: Frame) -> None:
        body_end = frame.body_at + len(frame.body)
        runs, failures = scan_batch(frame.buffer, frame.body_at, body_end, message_bytes_max=self._message_bytes_max)
        data = memoryview(frame.buffer)
        reason = self._refuse_sends()
        if reason:
            self._refuse_runs(connection, frame, runs, failures, SendResult.STORE_ERROR, reason)
            return
        if self._store.log.pending_bytes > UNSYNCED_BYTES_MAX:
            self._refuse_runs(connection, frame, runs, failures, SendResult.BROKER_BUSY, "broker busy")
            return
        store, now_ms = self._store, self._clock.wall_ms()
        offset = -1
        if self._send_gate:
            runs = self._let_in(frame, runs, failures)
        for run in runs:
            subject = self._subject_of(run, connection, frame, failures)
            if subject is not None:
                offset = store.append_run(subject, run, data, now_ms)
                self.counters.sends += run.count
        for failure in failures:
            self.counters.send_failures[SendResult(failure.result).name.lower()] += 1
        body = encode_send_response(failures) if failures else b""
        if offset < 0:
            connection.reply(frame, ResponseCode.SUCCESS, body)
            return
        self._committer.when_synced(offset, lambda: connection.reply(frame, ResponseCode.SUCCESS, body))

    def _subject_of(
        self, run: Run, connection: Connection, frame: Frame, failures: list[SendFailure]
    ) -> Subject | None:
        """The subject of a run; None when it is new and refused, and its messages were added to `failures`."""
        try:
            return self._store.subject(run.subject)
        except IllegalName as error:
            self._bad("illegal_name", connection, str(error))
            failures += _refused(
                frame, run.raw_begins, Refusal(SendResult.SUBJECT_NOT_ASSIGNED, f"message rejected: {error}", "name")
            )
            return None
        except LimitReached as error:
            self._bad("limit_reached", connection, str(error))
            refusal = Refusal(SendResult.STORE_ERROR, f"{SUBJECT_OVER_LIMIT}: {error}", "limit")
            failures += _refused(frame, run.raw_begins, refusal)
            return None

    def _let_in(self, frame: Frame, runs: list[Run], failures: list[SendFailure]) -> list[Run]:
        """What of these runs the policy lets in; the rest becomes failures."""
        let_in = []
        for run in runs:
            taken, refusal = self._send_gate.judge(run)
            if refusal is not None:
                self.counters.policy_refused_messages[refusal.reason] += run.count - taken
                failures += _refused(frame, run.raw_begins[taken:], refusal)
            if taken:
                let_in.append(run.part(0, taken))
        return let_in

    def _refuse_runs(
        self,
        connection: Connection,
        frame: Frame,
        runs: list[Run],
        failures: list[SendFailure],
        result: SendResult,
        remark: str,
    ) -> None:
        """Nothing of this send is stored: every message of it fails, definitely, with the same reason."""
        for run in runs:
            for begin in run.raw_begins:
                failures.append(SendFailure(_message_id(frame.buffer, begin), result, remark))
        for failure in failures:
            self.counters.send_failures[SendResult(failure.result).name.lower()] += 1
        connection.reply(frame, ResponseCode.SUCCESS, encode_send_response(failures))

    # --- pull ------------------------------------------------------------------------------------------------------

    def _pull(self, connection: Connection, frame: Frame) -> None:
        request = PullRequest.decode(frame.body, frame.version)
        self.counters.pulls += 1
        check_subject(request.subject)
        check_group(request.group)
        check_consumer_id(request.consumer_id)
        self.consumer_connections.note(request.consumer_id, connection)
        if request.limit <= 0 or request.pull_last >= PULL_SEQUENCE_MAX:
            what = f"a pull of {request.limit} messages after {request.pull_last} can't be served"
            self._bad("illegal_pull", connection, what)
            self._refuse(connection, frame)
            return
        deadline = self._clock.monotonic() + min(request.timeout_ms / 1000, HOLD_SECONDS_MAX)
        self._try(ParkedPull(connection, frame, request, deadline), is_new=True)

    def _try(self, pull: ParkedPull, *, is_new: bool) -> bool:
        """Answer a pull if there is anything for it, else park it; True when it is settled."""
        if pull.connection.is_closed:
            self._settled(pull, is_new)
            return True
        if self._pull_gate:
            if not self._pull_gate.allows(pull.request):
                self._settled(pull, is_new)
                self._not_allowed(pull)
                return True
            if self._pull_gate.is_paused(pull.request):
                return is_new and not self._pause(pull)
        try:
            answer = self._delivery.pull(
                pull.request, pull.connection, bytes_max=self._answer_bytes(pull), is_arrival=is_new
            )
        except ColdRead as cold:
            self._settled(pull, is_new)
            self._warm(pull, cold, is_new)
            return True
        if answer.raws:
            self._settled(pull, is_new)
            self._answer(pull, answer)
            return True
        if answer.is_full:
            self._settled(pull, is_new)
            self.counters.full_pulls += 1
            self._committer.kick()
            self._refuse(pull.connection, pull.frame)
            return True
        if answer.retry_at_ms is not None:
            wait = max(0, answer.retry_at_ms - self._clock.wall_ms()) / 1000
            self.polls.wake_at(pull.request.subject, self._clock.monotonic() + wait)
        self._committer.kick()
        if answer.has_more:
            self._settled(pull, is_new)
            self._committer.when_synced(
                answer.wait_for, lambda: pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)
            )
            return True
        if is_new and (self._is_stopping or pull.request.timeout_ms <= 0 or not self.polls.park(pull)):
            self._committer.when_synced(
                answer.wait_for, lambda: pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)
            )
            return True
        return False

    def _pause(self, pull: ParkedPull) -> bool:
        """Hold a paused consumer's new pull as if there were nothing for it; False when it was answered instead."""
        self.counters.paused_pulls += 1
        self._delivery.touch(pull.request, pull.connection)
        self._committer.kick()
        if self._is_stopping or pull.request.timeout_ms <= 0 or not self.polls.park(pull):
            pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)
            return False
        return True

    def _not_allowed(self, pull: ParkedPull) -> None:
        request = pull.request
        self.counters.policy_refused_pulls += 1
        if self._pull_gate.is_new_refusal(request, self._clock.monotonic()):
            what = f"group {request.group!a} is not among the groups that subject {request.subject!a} allows"
            self._log_limiter.warning(logger, pull.connection.peer, "group_not_allowed", what, self._clock.monotonic())
        self._refuse(pull.connection, pull.frame)

    def apply(self, policy: NodePolicy) -> None:
        """Judge pulls by this policy from now on; those whose pause ended are tried at once."""
        for subject, group, _ in self._pull_gate.apply(policy):
            self.wake(subject)
            self.wake(retry_subject(subject, group))

    def is_paused(self, subject: str, group: str, consumer_id: str) -> bool:
        """Whether a consumer, or with "" its whole group, is paused."""
        return self._pull_gate.is_paused(PullRequest(subject, group, consumer_id, 1, -1, -1, -1, False, ()))

    def _settled(self, pull: ParkedPull, is_new: bool) -> None:
        if not is_new:
            self.polls.done(pull)

    @staticmethod
    def _answer_bytes(pull: ParkedPull) -> int:
        return min(PULL_BYTES_MAX, pull.connection.answer_room)

    def _answer(self, pull: ParkedPull, answer: Delivered) -> None:
        head = PULL_RESPONSE_HEAD.pack(answer.pull_begin, -1)
        body = b"".join([head, *answer.raws])
        connection, session = pull.connection, answer.session
        connection.holds(pull.frame, len(body))
        if session is not None:
            session.answer_mark = -1

        def synced() -> None:
            connection.reply(pull.frame, ResponseCode.SUCCESS, body)
            if session is not None and session.peer is connection:
                session.answer_mark = connection.queued_bytes

        self._committer.when_synced(answer.wait_for, synced)

    def _warm(self, pull: ParkedPull, cold: ColdRead, is_arrival: bool) -> None:
        """Read what a pull needs into memory in a thread, then try the pull again from the start."""
        self.counters.cold_pulls += 1
        if len(self._cold) >= COLD_READS_MAX:
            pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)
            return
        loop, log = asyncio.get_running_loop(), self._store.message_log

        async def warm() -> None:
            await loop.run_in_executor(None, cold.read, log)

        future = self._supervisor.background("cold_read", warm())
        self._cold[future] = None

        def read(done: "asyncio.Future[None]") -> None:
            self._cold.pop(done, None)
            if done.cancelled():
                return
            try:
                # Also without a connection: a repair records damage.
                if (more := cold.finish()) is not None:
                    raise more
                if pull.connection.is_closed:
                    return
                if self._pull_gate:
                    # The policy may have changed since.
                    if not self._pull_gate.allows(pull.request):
                        self._not_allowed(pull)
                        return
                    if self._pull_gate.is_paused(pull.request):
                        self._pause(pull)
                        return
                answer = self._delivery.pull(
                    pull.request,
                    pull.connection,
                    bytes_max=self._answer_bytes(pull),
                    is_arrival=is_arrival,
                    cached_only=False,
                )
            except ColdRead as damaged:
                self._warm(pull, damaged, is_arrival)
                return
            except BeingSettled as wait:
                self._wait_or_ask_again(pull, wait.settlement, is_arrival)
                return
            except Exception as failure:  # noqa: BLE001 - every error ends this request only
                self._failed(pull.connection, pull.frame, failure)
                return
            if answer.raws:
                self._answer(pull, answer)
            elif answer.is_full:
                self.counters.full_pulls += 1
                self._refuse(pull.connection, pull.frame)
            else:
                pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)
            self._committer.kick()

        future.add_done_callback(read)

    def wake(self, subject: str) -> None:
        """Try the waiting pulls of a subject that may have new messages: of each group as many as it has messages for."""
        for group in self.polls.groups(subject):
            pull = self.polls.oldest(subject, group)
            while pull is not None and self._try_safely(pull):
                pull = self.polls.oldest(subject, group)
            if pull is not None and self._pull_gate and self._pull_gate.is_paused(pull.request):
                self._wake_behind_paused(pull)

    def _wake_behind_paused(self, paused: ParkedPull) -> None:
        """Try the pulls behind one that its consumer's pause holds; those of a group that is paused as a whole stay."""
        request = paused.request
        if self.is_paused(request.subject, request.group, ""):
            return
        for pull in self.polls.newer(paused):
            if not self._try_safely(pull) and not self._pull_gate.is_paused(pull.request):
                # It found nothing, and neither would those behind it.
                return

    def _try_safely(self, pull: ParkedPull) -> bool:
        try:
            return self._try(pull, is_new=False)
        except BeingSettled as wait:
            self.polls.done(pull)
            self._wait_or_ask_again(pull, wait.settlement, is_arrival=False)
            return True
        except Exception as error:  # noqa: BLE001 - every error ends this request only
            self.polls.done(pull)
            self._failed(pull.connection, pull.frame, error)
            return True

    def _wait_or_ask_again(self, pull: ParkedPull, settlement: Settlement, is_arrival: bool) -> None:
        """Take a pull again after a settlement. One that was held is answered with nothing instead: taken again as a new pull it
        would get what another pull of its sender has received since."""
        if is_arrival:
            self._after(settlement, pull.connection, pull.frame)
        else:
            pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)

    def _expired(self, pull: ParkedPull) -> None:
        self.polls.done(pull)
        pull.connection.reply(pull.frame, ResponseCode.NO_MESSAGE)

    def synced(self, touched: list[Subject]) -> None:
        """New messages are visible."""
        for subject in touched:
            self.wake(subject.name)

    def stop(self) -> None:
        """Answer every waiting pull with nothing, and hold none any more."""
        self._is_stopping = True
        self.settlements.stop()
        self.polls.give_up_all()

    # --- ack and group management ----------------------------------------------------------------------------------

    def _ack(self, connection: Connection, frame: Frame) -> None:
        request = AckRequest.decode(frame.body, frame.version)
        if not (request.subject and request.group and request.consumer_id):
            raise ProtocolError("an ack without subject, group or consumer id")
        offset = self._delivery.ack(request, connection)
        self.counters.acks += 1
        self._committer.when_synced(offset, lambda: connection.reply(frame, ResponseCode.SUCCESS))

    def _heartbeat(self, connection: Connection, frame: Frame) -> None:
        connection.reply(frame, Command.HEARTBEAT)

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
        if not request.only_if_new and not self._auth.is_trusted(connection):
            self._bad("unauthenticated", connection, f"group {request.group} would be reset without the node secret")
            self._auth.refuse(connection, frame)
            return
        subject = self._store.subject(request.subject)
        group, created = subject.groups.get(request.group), False
        if group is None or not request.only_if_new:
            group, created = set_position(
                self._store, subject, request.group, request.start, request.value, request.broadcast
            )
        body = EnsureGroupResponse(created, group.progress.next_sequence).encode()
        self._committer.when_synced(
            group.progress.applied_at, lambda: connection.reply(frame, ResponseCode.SUCCESS, body)
        )
        self.wake(subject.name)

    def _authenticate(self, connection: Connection, frame: Frame) -> None:
        problem = self._auth.handle(connection, frame)
        if problem:
            self._bad("unauthenticated", connection, problem)

    def _leave_group(self, connection: Connection, frame: Frame) -> None:
        request = LeaveGroupRequest.decode(frame.body)
        offset = -1
        subject = self._store.subjects.get(request.subject)
        group = subject.groups.get(request.group) if subject is not None else None
        consumer = group.progress.consumers.get(request.consumer_id) if group is not None else None
        if subject is not None and group is not None and consumer is not None:
            offset = self._delivery.leave(subject, group, consumer, connection)
        self._committer.when_synced(offset, lambda: connection.reply(frame, ResponseCode.SUCCESS))


def _refused(frame: Frame, raw_begins: list[int], refusal: Refusal) -> list[SendFailure]:
    return [SendFailure(_message_id(frame.buffer, begin), refusal.result, refusal.remark) for begin in raw_begins]


def _message_id(body: bytearray, raw_begin: int) -> str:
    """The id of a message that was scanned before."""
    return RawView(body, raw_begin).message_id
