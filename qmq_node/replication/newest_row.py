"""class NewestRow: the newest row of a node's broker group that a metaserver has sent."""

import asyncio
import logging
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.errors import ProtocolError
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.codes import Command
from qmq.protocol.frames import Frame
from qmq.protocol.group_rows import GroupRow as SentRow

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(eq=False, repr=False)
class NewestRow:
    """Takes rows from answers and requests of metaservers. Those of other broker groups, and older ones, change nothing."""

    _broker_group: str
    _clock: Clock
    value: SentRow | None = field(default=None, init=False)
    _log_limiter: LogLimiter = field(default_factory=LogLimiter, init=False)
    changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set when there is a newer row, or another address of its master. What acts on it clears it."""

    def learned(self, row: SentRow) -> None:
        """A metaserver sent this row."""
        if row.broker_group != self._broker_group:
            text = f"a metaserver sent the row of broker group {row.broker_group} to a node of {self._broker_group}; it is ignored"
            # Each heartbeat may have it.
            self._log_limiter.error(logger, row.broker_group, text, self._clock.monotonic())
        elif self.value is None or _is_newer(row, self.value):
            self.value = row
            self.changed.set()

    def requested(self, frame: Frame) -> None:
        """A metaserver sent a request: the row."""
        if frame.is_response:
            # It came after its time limit.
            return
        try:
            if frame.code != Command.ROLE:
                raise ProtocolError(f"command {frame.code} is none that a metaserver sends to a node")
            row = SentRow.decode(frame.body)
        except ProtocolError as error:
            logger.warning("a request of a metaserver is ignored: %s", error)
            return
        self.learned(row)


def _is_newer(row: SentRow, known: SentRow) -> bool:
    """Whether a row replaces the known one: it is a later version, or states an address of the master that was not known."""
    place, known_place = (row.epoch, row.in_sync_version), (known.epoch, known.in_sync_version)
    if place != known_place:
        return place > known_place
    return row.master_sync_address not in ("", known.master_sync_address)
