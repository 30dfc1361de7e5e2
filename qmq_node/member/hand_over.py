"""class HandOver: a master that another node is to replace has a slave promoted, and then leaves as a slave."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.rules.growing_pause import GrowingPause
from qmq_node.replication.rules.members import leaving
from qmq_node.replication.switch_overs import SwitchOverRejected, SwitchOverUnknown

HAND_OVER_SECONDS = 0.5
"""How often a master checks whether another node is to replace it, and has everything."""
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 5.0, 300.0
"""Pause after a switch-over to the replacement was rejected, as clients are held meanwhile: at first, and at most. It doubles."""


@dataclass(eq=False, repr=False)
class HandOver:
    """Tries again until a slave is promoted, or the replacement is canceled."""

    _node_id: str
    _leading: Callable[[], Leading | None]
    """Returns what the node leads, if it serves clients."""
    _switch_over: Callable[[], Awaitable[object]]
    """Has the best slave promoted, as `SwitchOvers.now`."""
    _clock: Clock
    _logger: logging.Logger
    _pause: GrowingPause = field(default_factory=lambda: GrowingPause(PAUSE_SECONDS, PAUSE_SECONDS_MAX), init=False)
    problem: Reason = field(default=NO_REASON, init=False)
    """Why the master still leads after an attempt; "" if it is not to leave."""

    async def check(self) -> None:
        """Have a slave promoted if another node replaces this master. To be called every HAND_OVER_SECONDS."""
        leading = self._leading()
        if leading is None or leaving(leading.current_membership) != self._node_id:
            self.problem = NO_REASON
        elif not self._pause.remaining(self._clock.monotonic()):
            try:
                await self._switch_over()
            except (SwitchOverRejected, SwitchOverUnknown) as error:
                self._pause.failed(self._clock.monotonic())
                self.problem = Reason.of(Code.HANDS_OVER_LATER, why=str(error))
                self._logger.warning("this master, which is replaced, can't switch over yet: %s", error)
