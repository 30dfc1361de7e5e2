"""The time of a delay group: its master's trusted time, which its slaves follow, so that it continues when one of them is promoted.

A slave compares its wall clock with the time that the master states. If it is ahead by more than `STEP_ACCEPTED_MS`, it holds the
difference as a step (`TrustedClock`): promoted, it delivers by the group's time until an operator confirms its wall clock. If it
is behind, it delivers late by that as master, never early. After a start of all members there is nothing to compare with: the
wall clock of the one that is promoted is accepted, as that of a single node.
"""

import asyncio
import logging
from collections.abc import Iterable
from math import inf
from typing import Any

from prometheus_client.core import Metric

from delay_node.trusted_clock import HeldStep, HeldStepFile, TrustedClock
from qmq.clock import Clock
from qmq.net.open_files import FileBudget
from qmq.protocol.replication import StatedTime
from qmq.protocol.values import TIME_MS_MAX
from qmq_node.daemon.part import Part
from qmq_node.log.disk import Disk
from qmq_node.node.node import Node
from qmq_node.node.storage import JOB_SECONDS
from qmq_node.process.counters import MetricFamilies

WINDOW_SECONDS = 60.0
"""The frame that was under way for the shortest time is looked for in the last one to two of these. Meanwhile two monotonic clocks
drift apart by less than 0.1 s (500 ppm)."""
AGE_SECONDS_MAX = 600.0
"""A frame that seems to have been under way for longer was not: the master's monotonic clock has stepped back."""

logger = logging.getLogger("qmq.delay")


class MasterTime:
    """The time of a master, from what it states: never ahead of the master's own, and behind it by the shortest delay of a frame.

    How long a frame was under way is not known, but the monotonic clocks of both machines run at the same rate. So the frame that
    shows the master's one furthest ahead of this one's was under way for the shortest time, and each other frame was under way for
    longer by the difference. That distinguishes a late frame from a wall clock of the master that was set back.
    """

    def __init__(self) -> None:
        self._ahead_s = -inf
        """How far the master's monotonic clock is ahead, as the frames of this window show it at most."""
        self._ahead_before_s = -inf
        """The same, of the window before."""
        self._window_end = -inf

    def stated(self, time: StatedTime, received_at: float) -> float:
        """Return the master's time in milliseconds at the moment when this frame was received.

        Args:
            received_at: seconds on this machine's monotonic clock, not before that of an earlier frame.
        """
        if received_at >= self._window_end:
            self._ahead_before_s, self._ahead_s = self._ahead_s, -inf
            self._window_end = received_at + WINDOW_SECONDS
        ahead_s = time.monotonic_us / 1_000_000 - received_at
        if max(self._ahead_s, self._ahead_before_s) - ahead_s > AGE_SECONDS_MAX:
            self._ahead_s = self._ahead_before_s = -inf
        self._ahead_s = max(self._ahead_s, ahead_s)
        return time.time_ms + (max(self._ahead_s, self._ahead_before_s) - ahead_s) * 1000


class GroupClock:
    """The clock of a delay node as master and as slave: what it states and follows, what is held over restarts, what it reports."""

    trusted: TrustedClock
    """From `open` on."""

    def __init__(self, clock: Clock, disk: Disk, folder: str) -> None:
        self._clock = clock
        self._file = HeldStepFile(disk, folder)
        self._file_change = asyncio.Lock()
        self._master_time = MasterTime()
        self._logged = ""
        """What was logged to be wrong with the wall clock."""

    def open(self) -> None:
        """Read the step that was held when the node ended; in a thread."""
        try:
            held = self._file.load()
        except OSError as error:
            logger.error("it is not known whether a step of the wall clock was held, the clock is accepted: %s", error)
            held = None
        self.trusted = TrustedClock(self._clock, held)

    # --- as qmq_node.replication.group_time.GroupTime ----------------------------------------------------------------

    def statement(self) -> StatedTime:
        # The monotonic clock is read second: so the slave takes the time for a little older, never for newer.
        now_ms = min(max(1, self.trusted.now_ms()), TIME_MS_MAX)
        return StatedTime(now_ms, int(self._clock.monotonic() * 1_000_000))

    def session_began(self) -> None:
        self._master_time = MasterTime()

    def stated(self, time: StatedTime, received_at: float) -> None:
        self.trusted.follow(self._master_time.stated(time, received_at), received_at)

    # --- held steps --------------------------------------------------------------------------------------------------

    @property
    def problem(self) -> str:
        """What is wrong with the wall clock, as of the last comparison; "" if nothing is."""
        held, behind_ms = self.trusted.held, self.trusted.behind_ms
        if held is not None:
            return (
                f"the wall clock is {held.ahead_ms} ms ahead of the group's time; messages are delivered by the group's time until"
                " an operator confirms the wall clock at the master (POST /clock/confirm) or it returns"
            )
        if behind_ms:
            return f"the wall clock is {behind_ms} ms behind the group's time; a master delivers late by that"
        return ""

    def _check(self) -> None:
        """Compare the clocks; log when something is wrong with the wall clock, and when nothing is any more."""
        self.trusted.now_ms()
        found = "ahead" if self.trusted.held is not None else "behind" if self.trusted.behind_ms else ""
        if found != self._logged:
            self._logged = found
            if found:
                logger.error("%s", self.problem)
            else:
                logger.warning("the wall clock is trusted again")

    async def keep(self) -> None:
        """Compare the clocks, and write the step that is held, for a restart. Raises OSError."""
        async with self._file_change:
            self._check()
            held = self.trusted.held
            if not self._file.is_kept(held):
                await asyncio.to_thread(self._file.keep, held)

    async def confirm(self) -> HeldStep | None:
        """Accept the wall clock as the group's time, also after a restart; return the step that was held.

        For a master only: the time of a slave is what its master states. Raises OSError; the step is held as before.
        """
        async with self._file_change:
            await asyncio.to_thread(self._file.keep, None)
            held = self.trusted.held
            self.trusted.confirm()
        return held

    # --- reports -----------------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """Return the table `clock` of the page /stats."""
        now_ms, held = self.trusted.now_ms(), self.trusted.held
        return {
            "now_ms": now_ms,
            "ahead_ms": held.ahead_ms if held is not None else 0,
            "held_since_ms": held.since_ms if held is not None else None,
            "behind_ms": self.trusted.behind_ms,
        }

    def metrics(self, families: MetricFamilies) -> Iterable[Metric]:
        """The metrics of the clock."""
        text = "Forward steps of the wall clock that were not accepted"
        yield families.counter("clock_steps_refused", text, self.trusted.steps_refused)
        text = "1 while the wall clock is ahead by an unconfirmed step"
        yield families.gauge("clock_held", text, self.trusted.held is not None)
        text = "By how much the wall clock is behind the group's time, where that is more than 5 s"
        yield families.gauge("clock_behind_seconds", text, self.trusted.behind_ms / 1000)


class ClockWatch(Part):
    """Compares the clocks once a second while the node runs, whatever its role is, and has held steps on disk."""

    def __init__(self, node: Node, clock: GroupClock) -> None:
        self._node, self._clock = node, clock

    async def open(self, budget: FileBudget) -> None:
        """The data is open."""
        self._node.supervisor.every(JOB_SECONDS, "clock_file", self._clock.keep)

    async def stop(self) -> None:
        try:
            await self._clock.keep()
        except OSError as error:
            logger.error("the next start accepts the wall clock: the held step can't be written: %s", error)

    def restrictions(self) -> dict[str, str]:
        """`clock` while the wall clock is not the group's time: a restart would change nothing."""
        return {"clock": self._clock.problem} if self._clock.problem else {}
