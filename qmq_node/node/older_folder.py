"""class OlderFolder: that a metaserver has said that the data folder is older than what the node had."""

import asyncio
import logging

from qmq.protocol.extensions import NodeRegisterResponse
from qmq.protocol.reasons import Code
from qmq.supervisor import Supervisor
from qmq_node.replication.replica_state import ReplicaStateFile


class OlderFolder:
    """Remembers it until an operator has accepted the loss, also over restarts.

    Until then the node reports the end that its log had when the metaserver said so. What it stores later, for example acks, does
    not bring back what is missing, although the log may become longer than it was.
    """

    def __init__(self, replica: ReplicaStateFile, supervisor: Supervisor, logger: logging.Logger) -> None:
        self._replica = replica
        self._supervisor = supervisor
        self._logger = logger
        self._log_end: int | None = None
        """As `ReplicaState.older_end`, and not on disk yet; None: it is as on disk."""
        self._storing: asyncio.Task[None] | None = None

    @property
    def log_end(self) -> int:
        """Where the log ended when a metaserver said it; -1: none has, or the loss was accepted."""
        return self._replica.state.older_end if self._log_end is None else self._log_end

    def __bool__(self) -> bool:
        return self.log_end >= 0

    def reported_end(self, synced_end: int) -> int:
        """Return the end of the log that is reported to metaservers."""
        return self.log_end if self and self._replica.state.is_only_member else synced_end

    def answered(self, answer: NodeRegisterResponse) -> None:
        """A metaserver has answered a registration or a heartbeat."""
        if answer.reason.code == Code.OLDER_FOLDER:
            if not self:
                end = answer.reason.values.get("end")
                self._log_end = end if isinstance(end, int) else 0
        elif answer.accepted and self:
            self._logger.info("metaservers do not say any more that the data folder is older than what the node had")
            self._log_end = -1
        if self._log_end is not None and (self._storing is None or self._storing.done()):
            self._storing = self._supervisor.background("older_folder", self.store())

    async def store(self) -> None:
        """Have it on disk. Raises OSError; the next answer tries again."""
        while (end := self._log_end) is not None:
            await asyncio.to_thread(self._replica.note_older, end)
            if self._log_end == end:
                self._log_end = None
