"""class DelaySends: schedules the messages of SEND requests."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from delay_node.errors import LimitReached
from delay_node.schedule_log import flags_and_times
from delay_node.store import DelayStore
from delay_node.trusted_clock import DUE_TOLERANCE_MS, TrustedClock
from qmq.protocol.codes import SendResult
from qmq.protocol.commands import SendFailure
from qmq.protocol.frames import Frame
from qmq.protocol.messages import FLAG_DELAY, KEY_SCHEDULE
from qmq.protocol.names import SUBJECT_OVER_LIMIT
from qmq.protocol.raw import RawView
from qmq.protocol.scan import Run
from qmq.protocol.values import LONG_MAX, whole_number
from qmq_node.commits.committer import Committer
from qmq_node.log.commit import RECORD_HEAD_BYTES_MAX
from qmq_node.requests.handlers import Rejections
from qmq_node.requests.sends import Admission, SendCounters, SendHandler, failures_of
from qmq_node.server.connection import Connection

RUN_BYTES_MAX = 8 << 20
"""Messages of one send that become one record of the log, unless a single one is larger."""


class DelaySends(SendHandler):
    """Schedules the messages of SEND requests, due `delay_max_ms` ahead at most.

    With more than `unwritten_bytes_max` of schedule and dispatch logs in memory only, sends are answered busy.
    """

    busy = "delay node busy"

    def __init__(
        self,
        store: DelayStore,
        committer: Committer,
        clock: TrustedClock,
        admission: Admission,
        delay_max_ms: int,
        unwritten_bytes_max: int,
        rejections: Rejections,
        counters: SendCounters,
    ) -> None:
        super().__init__(store.log, committer, admission, rejections, counters)
        self._store = store
        self._clock = clock
        self._delay_max_ms = delay_max_ms
        self._unwritten_bytes_max = unwritten_bytes_max
        # A record has twelve bytes more for each message, which has 54 bytes at least.
        self._run_bytes_max = min(RUN_BYTES_MAX, (store.log.gather.record_bytes_max - RECORD_HEAD_BYTES_MAX) * 3 // 4)

    def is_busy(self) -> bool:
        return super().is_busy() or self._store.hours.unwritten_bytes > self._unwritten_bytes_max

    def append(self, run: Run, frame: Frame, connection: Connection, failures: list[SendFailure]) -> int:
        data, now_ms, offset = memoryview(frame.buffer), self._clock.now_ms(), -1
        dues, wrong = self._dues(run, data, now_ms)
        for i in wrong:
            days = self._delay_max_ms / 86_400_000
            remark = f"delay.too_far: due time {dues[i]} ms is not within the next {days:g} days"
            failures += failures_of(frame, run.raw_begins[i : i + 1], SendResult.BLOCK, remark)
        for first, last in _between(wrong, run.count):
            for part in run.part(first, last).split(self._run_bytes_max):
                try:
                    offset = self._store.schedule(part, data, dues[first : first + part.count], now_ms)
                    self.counters.sends += part.count
                except LimitReached as error:
                    remark = f"{SUBJECT_OVER_LIMIT}: {error}"
                    failures += failures_of(frame, part.raw_begins, SendResult.STORE_ERROR, remark)
                    self.rejections.count("limit_reached", connection, remark)
                first += part.count
        return offset

    def _dues(self, run: Run, data: memoryview, now_ms: int) -> tuple[NDArray[np.int64], list[int]]:
        """The due times of a run's messages, past ones as now; and which messages are due too far ahead.

        A message without the delay bit is due when its property says: the official client decides twice whether a message
        is delayed, and may come here with one that no longer is (trap T9).
        """
        flags, dues = flags_and_times(data, np.array(run.raw_begins, dtype=np.int64))
        for i in np.flatnonzero((flags & FLAG_DELAY) == 0).tolist():
            text = RawView(data, run.raw_begins[i]).property_text(KEY_SCHEDULE.encode())
            dues[i] = whole_number(text, now_ms, LONG_MAX)
        wrong = np.flatnonzero((dues < 0) | (dues > now_ms + self._delay_max_ms + DUE_TOLERANCE_MS)).tolist()
        past = dues < now_ms
        past[wrong] = False
        dues[past] = now_ms
        return dues, wrong


def _between(left_out: Iterable[int], count: int) -> list[tuple[int, int]]:
    """The ranges [first, last) of [0, count) without some places."""
    return [(before + 1, place) for before, place in pairwise([-1, *left_out, count]) if place > before + 1]
