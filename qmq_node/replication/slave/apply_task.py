"""class ApplyTask: applies the commits that a slave has stored, as the high watermark rises."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from qmq.errors import LogError
from qmq_node.commits.applying import Applying
from qmq_node.replication.slave.follow_outcomes import ReplicationAlarm
from qmq_node.replication.slave.slave_copy import SlaveCopy


@dataclass(eq=False, repr=False)
class ApplyTask:
    """Applies in a task of its own, so confirmations do not wait for it."""

    _copy: SlaveCopy
    _applying: Applying
    _high_watermark: Callable[[], int]
    """The highest one that is known."""
    _on_applied: Callable[[], None]
    _on_damaged: Callable[[str], None]
    """Called once with the reason if the log is damaged where it has to be applied next."""
    _is_due: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    alarm: ReplicationAlarm | None = field(default=None, init=False)
    """Why this log can't be applied, and further sessions would not help."""

    def soon(self) -> None:
        """Commits arrived, or the high watermark rose: look what can be applied."""
        self._is_due.set()

    async def run(self) -> None:
        """Apply until cancelled; nothing more once the log has proved to be damaged.

        Raises LogError if the disk can't read it, or if a record can't be applied.
        """
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            if not self._copy.applies or self.alarm is not None:
                continue
            try:
                await self._applying.advance(self._high_watermark())
            except LogError as error:
                if error.code != "log.unreadable":
                    raise
                self.alarm = ReplicationAlarm(f"its log can't be applied: {error}")
                self._on_damaged(str(error))
            else:
                self._on_applied()
