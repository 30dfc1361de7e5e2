"""class PlannedSwitchOvers: switch-overs that an operator requests, and the one before a master stops."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from qmq.clock import Clock
from qmq.protocol.group_memberships import GroupMembership
from qmq.supervisor import Supervisor
from qmq_node.replication.switch_over.switch_over import SwitchOver, SwitchOverRejected, SwitchOverUnknown

SUCCESSOR_SECONDS = 0.5
"""How long a master that stops holds its clients after its resignation. Meanwhile its successor begins to serve, and metaservers
send clients its address."""
STOP_SECONDS_MAX = 5.0
"""How long a master that stops takes to have a slave promoted, at most. It may have to drain, and to repeat its resignation."""

CHECKPOINT_SECONDS = 5.0
"""How long a switch-over waits for a checkpoint before it begins. The checkpoint is completed in any case."""

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(eq=False, repr=False)
class PlannedSwitchOvers:
    """Switch-overs of one master."""

    _node_id: str
    _switch_over: SwitchOver
    _make_checkpoint: Callable[[], Coroutine[None, None, None]]
    _on_membership: Callable[[GroupMembership], None]
    """Called with the membership that has another master: the node is to follow it."""
    _clock: Clock
    _supervisor: Supervisor
    is_done: bool = field(default=False, init=False)
    """Whether a slave was promoted at the request of an operator, after a checkpoint."""

    async def now(self, to: str) -> dict[str, Any]:
        """Have a slave lead the group, and follow it. Clients are disconnected once it was promoted.

        Args:
            to: its node id; "": the slave that has the most.

        Returns:
            For the page: `from` and `to`, node ids; `epoch` of the new master; `held_seconds`, for which clients were held.

        Raises:
            SwitchOverRejected, SwitchOverUnknown: as `SwitchOver.run`.
        """
        self._switch_over.check(to)
        # The successor serves when this node has opened its log again and follows: it is to replay as little as possible.
        checkpoint = self._supervisor.background("switch_over_checkpoint", self._make_checkpoint())
        await asyncio.wait([checkpoint], timeout=CHECKPOINT_SECONDS)
        began = self._clock.monotonic()
        membership = await self._switch_over.run(to, is_leaving=False)
        self.is_done = True
        self._on_membership(membership)
        held_seconds = round(self._clock.monotonic() - began, 3)
        return {"from": self._node_id, "to": membership.master, "epoch": membership.epoch, "held_seconds": held_seconds}

    async def before_stop(self, seconds: float) -> None:
        """Have a slave lead the group, if one can, before this node stops.

        Clients are held when it returns, if a slave was promoted.

        Args:
            seconds: time limit for the promotion; it has STOP_SECONDS_MAX at most.
        """
        try:
            async with asyncio.timeout(min(seconds, STOP_SECONDS_MAX)):
                await self._switch_over.run("", is_leaving=True)
        except (SwitchOverRejected, SwitchOverUnknown) as error:
            logger.warning("node %s stops without a successor: %s", self._node_id, error)
        except TimeoutError:
            logger.warning("node %s stops, and may have no successor: the switch-over takes too long", self._node_id)
        else:
            await asyncio.sleep(SUCCESSOR_SECONDS)
