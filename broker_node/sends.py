"""class BrokerSends: appends the messages of SEND requests to the broker's log."""

from broker_node.store import MessageStore
from broker_node.subject_table import LimitReached
from qmq.clock import Clock
from qmq.daemon.committer import Committer
from qmq.daemon.handlers import Rejections
from qmq.daemon.sends import Admission, SendCounters, SendHandler, failures_of
from qmq.errors import IllegalName
from qmq.net.connection import Connection
from qmq.protocol.codes import SendResult
from qmq.protocol.commands import SendFailure
from qmq.protocol.frames import Frame
from qmq.protocol.names import SUBJECT_OVER_LIMIT
from qmq.protocol.scan import Run


class BrokerSends(SendHandler):
    """Stores the messages of SEND requests."""

    def __init__(
        self,
        store: MessageStore,
        committer: Committer,
        clock: Clock,
        admission: Admission,
        rejections: Rejections,
        counters: SendCounters,
    ) -> None:
        super().__init__(store.log, committer, admission, rejections, counters)
        self._store = store
        self._clock = clock

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
            return self._store.append_run(subject, run, memoryview(frame.buffer), self._clock.wall_ms())
        failures += failures_of(frame, run.raw_begins, result, remark)
        return -1
