"""Evaluates rules about broker groups and disks as soon as their inputs change, not only when the job `alerts` runs.

docs/alerts.md has the times from a failure to its alert.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from channels.db import database_sync_to_async
from django.db import Error as DatabaseError
from django.utils import timezone

from console.alerts.readings import SILENT_SECONDS, silence
from console.alerts.services import evaluate_urgent
from console.snapshot.state import Entry, State

logger = logging.getLogger("qmq.live")

FOLLOWED_SECONDS = 5.0
"""For so long after SILENT_SECONDS of silence, and twice as long after a write began to hang, each cycle is evaluated: values rise
above thresholds, and the last heartbeat of a node is stored later than it responded. Afterwards the job does."""


def is_urgent(before: State, after: State, now: float) -> bool:
    """Return whether rules of URGENT kinds may have another result than in the cycle before.

    Args:
        now: seconds since the epoch.
    """
    return _situation(before) != _situation(after) or any(_is_followed(node, now) for node in after["nodes"].values())


def _situation(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    groups = {name: entry["state"] for name, entry in state["broker_groups"].items()}
    return groups, {name: (entry["is_measured"], _is_stuck(entry)) for name, entry in state["nodes"].items()}


def _is_stuck(node: Entry) -> bool:
    return (node.get("disk_stuck_seconds") or 0) > 0


def _is_followed(node: Entry, now: float) -> bool:
    silent_seconds, stuck_seconds = silence(node, now) or 0.0, node.get("disk_stuck_seconds") or 0.0
    return 0 <= silent_seconds - SILENT_SECONDS < FOLLOWED_SECONDS or 0 < stuck_seconds < 2 * FOLLOWED_SECONDS


class UrgentAlerts:
    """Evaluates the newest state that is urgent, one at a time, independently of the collector's cycles.

    Args:
        on_change: called when alerts fired or were resolved.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._state: State | None = None
        self._has_state = asyncio.Event()

    def cycle(self, before: State, after: State, now: float) -> None:
        """To be called after each cycle; `now` as of `is_urgent`."""
        if is_urgent(before, after, now):
            self._state = after
            self._has_state.set()

    async def run(self) -> None:
        """Evaluate until cancelled. If the database fails, the next urgent cycle or the job tries again."""
        while True:
            await self._has_state.wait()
            self._has_state.clear()
            try:
                done = await database_sync_to_async(evaluate_urgent, thread_sensitive=False)(
                    self._state, timezone.now()
                )
            except DatabaseError as error:
                logger.warning("alerts can't be evaluated: %s", error)
                continue
            if done.fired or done.resolved:
                self._on_change()
