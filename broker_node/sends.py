"""SEND: check a batch where it lies, append it to the log, answer once it is on disk."""

from collections.abc import Callable

from broker_node.rejections import HandlerCounters, Rejections
from broker_node.store import LimitReached, MessageStore
from broker_node.subject import Subject
from qmq.clock import Clock
from qmq.daemon.committer import Committer
from qmq.daemon.send_gate import Refusal, SendGate
from qmq.errors import IllegalName
from qmq.net.connection import Connection
from qmq.protocol.codes import ResponseCode, SendResult
from qmq.protocol.commands import SendFailure, encode_send_response
from qmq.protocol.frames import Frame
from qmq.protocol.names import SUBJECT_OVER_LIMIT
from qmq.protocol.raw import RawView
from qmq.protocol.scan import BatchScanner, Run

UNSYNCED_BYTES_MAX = 64 << 20
"""Bytes appended and not yet on disk; above it sends are answered busy."""


class SendHandler:
    """Stores the messages of SEND requests.

    Args:
        refuse_sends: why all sends are refused at the moment (read only, disk full); "" when they are welcome.
        send_gate: which subjects' messages are refused though.
    """

    def __init__(
        self,
        store: MessageStore,
        committer: Committer,
        clock: Clock,
        refuse_sends: Callable[[], str],
        send_gate: SendGate,
        rejections: Rejections,
        counters: HandlerCounters,
        message_bytes_max: int,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._refuse_sends = refuse_sends
        self._send_gate = send_gate
        self._rejections = rejections
        self._counters = counters
        self._scanner = BatchScanner(message_bytes_max)

    def handle(self, connection: Connection, frame: Frame) -> None:
        """Store a batch and answer it once it is on disk.

        Raises:
            ProtocolError: the batch can't be decoded; nothing of it is stored.
        """
        body_end = frame.body_at + len(frame.body)
        runs, failures = self._scanner.scan(frame.buffer, frame.body_at, body_end)
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
            runs = self._admit(frame, runs, failures)
        for run in runs:
            subject = self._subject_of(run, connection, frame, failures)
            if subject is not None:
                offset = store.append_run(subject, run, data, now_ms)
                self._counters.sends += run.count
        for failure in failures:
            self._counters.send_failures[SendResult(failure.result).name.lower()] += 1
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
            self._rejections.count("illegal_name", connection, str(error))
            failures += _refused(
                frame, run.raw_begins, Refusal(SendResult.SUBJECT_NOT_ASSIGNED, f"message rejected: {error}", "name")
            )
            return None
        except LimitReached as error:
            self._rejections.count("limit_reached", connection, str(error))
            refusal = Refusal(SendResult.STORE_ERROR, f"{SUBJECT_OVER_LIMIT}: {error}", "limit")
            failures += _refused(frame, run.raw_begins, refusal)
            return None

    def _admit(self, frame: Frame, runs: list[Run], failures: list[SendFailure]) -> list[Run]:
        """What of these runs the policy lets in; the rest becomes failures."""
        admitted = []
        for run in runs:
            taken, refusal = self._send_gate.judge(run)
            if refusal is not None:
                self._counters.policy_refused_messages[refusal.reason] += run.count - taken
                failures += _refused(frame, run.raw_begins[taken:], refusal)
            if taken:
                admitted.append(run.part(0, taken))
        return admitted

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
            self._counters.send_failures[SendResult(failure.result).name.lower()] += 1
        connection.reply(frame, ResponseCode.SUCCESS, encode_send_response(failures))


def _refused(frame: Frame, raw_begins: list[int], refusal: Refusal) -> list[SendFailure]:
    return [SendFailure(_message_id(frame.buffer, begin), refusal.result, refusal.remark) for begin in raw_begins]


def _message_id(body: bytearray, raw_begin: int) -> str:
    """The id of a message that was scanned before."""
    return RawView(body, raw_begin).message_id
