"""SEND: check a batch where it lies, admit what may be stored, have it appended, answer once it is on disk."""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass
from weakref import WeakSet

from qmq.protocol.codes import ResponseCode, SendResult
from qmq.protocol.commands import SendFailure, encode_send_response
from qmq.protocol.frames import Frame
from qmq.protocol.raw import RawView
from qmq.protocol.reasons import Reason
from qmq.protocol.scan import BatchScanner, EntryLimits, Run
from qmq_node.commits.committer import Committer
from qmq_node.log.log import SegmentedLog
from qmq_node.process.counters import counted, counted_by
from qmq_node.requests.handlers import Rejections, RequestCounters
from qmq_node.requests.send_gate import SendGate
from qmq_node.server.connection import Connection

UNSYNCED_BYTES_MAX = 64 << 20
"""Bytes appended and not yet on disk; above it sends are answered busy."""
UNCONFIRMED_BYTES_MAX = 64 << 20
"""Bytes of a replicated log that are appended and not below the high watermark; above it sends wait. They are not answered busy:
the official client does not send such messages again."""
RESUMED_PER_CONFIRMATION = 200
"""Waiting sends that are handled after one rise of the high watermark: some 5 ms of the event loop."""


@dataclass(slots=True)
class SendCounters(RequestCounters):
    """Counts since start. `send_failures` is a metric under a name of each kind of node."""

    sends: int = counted("sent_messages", "Messages received from producers (receivedMessagesCount)")
    policy_refused_messages: Counter[str] = counted_by(
        "reason", "policy_refused_messages", "Messages rejected by a policy, by reason"
    )
    send_failures: Counter[str] = counted_by("result", "refused_messages", "Rejected messages, by result")
    unknown_sends: int = counted(
        "unknown_sends", "Stored sends whose connection was closed instead, because too few members were in sync"
    )


@dataclass(frozen=True, slots=True)
class Admission:
    """What decides whether messages are accepted."""

    refuse_sends: Callable[[], Reason]
    """Why all sends are refused at the moment (read only, disk full); "" when they are accepted."""
    send_gate: SendGate
    """Which subjects' messages are refused though."""
    bytes_max: EntryLimits
    may_answer: Callable[[], bool] = lambda: True
    """Whether a send that every in-sync member has stored may be answered: enough members are in sync."""
    awaits_segment: Callable[[Reason], bool] = lambda reason: False
    """Whether sends that are refused for this reason wait instead, because the log's next segment is being created."""


@dataclass(eq=False, repr=False)
class SendHandler(ABC):
    """Handles SEND. A kind of node adds how it appends messages.

    Whether the group accepts sends is decided twice. A send that arrives while it does not is rejected, and not stored. A stored
    send is never answered as rejected: it may be delivered. If the group has fewer in-sync members than required when the high
    watermark passes the send, it can't be answered as stored either, so its connection is closed. Its sender knows at once that the
    outcome is unknown, as after a crash of the node, and sends the messages again.
    """

    busy = "broker busy"
    """What messages are answered when too much waits for the disk."""

    _log: SegmentedLog
    _committer: Committer
    admission: InitVar[Admission]
    rejections: Rejections
    counters: SendCounters

    def __post_init__(self, admission: Admission) -> None:
        self._refuse_sends = admission.refuse_sends
        self._send_gate = admission.send_gate
        self._may_answer = admission.may_answer
        self._awaits_segment = admission.awaits_segment
        self._scanner = BatchScanner(admission.bytes_max)
        self._waiting: dict[Connection, deque[Frame]] = {}
        """Sends that wait, by connection; those of a closed connection are dropped."""
        self._watched: WeakSet[Connection] = WeakSet()
        """Connections whose end removes them from `_waiting`."""
        self._committer.on_confirmed = self.resume

    @abstractmethod
    def append(self, run: Run, frame: Frame, connection: Connection, failures: list[SendFailure]) -> int:
        """Append a run's messages to the log; those that can't be stored become `failures`.

        Returns the log offset of the last record, -1 when there is none.
        """

    def is_busy(self) -> bool:
        """Whether too much waits for the disk."""
        return self._log.gather.pending_bytes > UNSYNCED_BYTES_MAX

    def _is_over(self) -> bool:
        committer = self._committer
        return committer.is_replicated and committer.unconfirmed_bytes > UNCONFIRMED_BYTES_MAX

    def _may_continue(self) -> bool:
        """Whether sends that wait can be stored, or are refused."""
        refused = self._refuse_sends()
        return not self._awaits_segment(refused) and (bool(refused) or not self._is_over())

    def resume(self) -> None:
        """Handle sends that wait, those of each connection in order, as far as the high watermark and the log's space allow, or as
        sends are refused.

        To be called when either has changed.
        """
        waiting, left = self._waiting, RESUMED_PER_CONFIRMATION
        # Without anything unconfirmed no further call would come.
        while waiting and (left > 0 or not self._committer.waiting) and self._may_continue():
            connection, frames = next(iter(waiting.items()))
            frame = frames.popleft()
            left -= 1
            del waiting[connection]
            if frames:
                # Connections take turns.
                waiting[connection] = frames
            try:
                self._handle_now(connection, frame)
            except Exception as error:  # noqa: BLE001 - every error ends this request only
                self.rejections.fail(connection, frame, error)

    def _wait(self, connection: Connection, frame: Frame) -> None:
        self._waiting.setdefault(connection, deque()).append(frame)
        if connection not in self._watched:
            self._watched.add(connection)
            connection.on_close(lambda: self._waiting.pop(connection, None))

    def handle(self, connection: Connection, frame: Frame) -> None:
        """Store a batch and answer it once it is on disk. Raises ProtocolError if it can't be decoded; nothing is stored then."""
        if self._waiting or self._is_over():
            self._wait(connection, frame)
        else:
            self._handle_now(connection, frame)

    def _handle_now(self, connection: Connection, frame: Frame) -> None:
        refused = self._refuse_sends()
        if refused and self._awaits_segment(refused):
            self._wait(connection, frame)
            return
        runs, failures = self._scanner.scan(frame.buffer, frame.body_at, frame.body_at + len(frame.body))
        if refused or self.is_busy():
            result = SendResult.STORE_ERROR if refused else SendResult.BROKER_BUSY
            for run in runs:
                failures += failures_of(frame, run.raw_begins, result, refused or self.busy)
            runs = []
        elif self._send_gate:
            runs = self._admit(frame, runs, failures)
        offset = -1
        for run in runs:
            offset = max(offset, self.append(run, frame, connection, failures))
        body = b""
        if failures:
            self.counters.send_failures.update(SendResult(failure.result).name.lower() for failure in failures)
            body = encode_send_response(failures)
        if offset < 0:
            # Nothing was stored: the answer does not wait behind those that wait for the disk.
            connection.reply(frame, ResponseCode.SUCCESS, body)
            return
        self._committer.when_synced(offset, lambda: self._answer(connection, frame, body))

    def _answer(self, connection: Connection, frame: Frame, body: bytes) -> None:
        """Answer a send that is below the high watermark, or close its connection."""
        if self._may_answer():
            connection.reply(frame, ResponseCode.SUCCESS, body)
        elif not connection.is_closed:
            self.counters.unknown_sends += 1
            connection.abort()

    def _admit(self, frame: Frame, runs: list[Run], failures: list[SendFailure]) -> list[Run]:
        """What of these runs the policy admits; the rest becomes failures."""
        admitted = []
        for run in runs:
            taken, refusal = self._send_gate.judge(run)
            if refusal is not None:
                self.counters.policy_refused_messages[refusal.reason] += run.count - taken
                failures += failures_of(frame, run.raw_begins[taken:], SendResult.STORE_ERROR, refusal.remark)
            if taken:
                admitted.append(run.part(0, taken))
        return admitted


def failures_of(frame: Frame, raw_begins: Iterable[int], result: SendResult, remark: str) -> list[SendFailure]:
    """The failures of messages that were scanned before."""
    return [SendFailure(RawView(frame.buffer, begin).message_id, result, remark) for begin in raw_begins]
