"""The clock of the delay nodes, by which a producer counts delays: class DelayClock."""

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from qmq.client.own_commands import OwnCommands
from qmq.clock import Clock
from qmq.errors import ProtocolError, QmqError, SendFailed
from qmq.net.pool import Pool
from qmq.net.routing import WRITABLE, usable
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff, Timeouts
from qmq.protocol.codes import ClientType, Command, ResponseCode
from qmq.protocol.delayed import DelayClockResponse

REFRESH_SECONDS = 60.0
"""How long an answer of a delay node is used before one is asked again."""
REFRESH_ANSWER_SECONDS = 1.0
"""How long that answer may take; without it the last one stays in use."""
STEP_MS = 1_000
"""A step of this machine's wall clock by more than this has a delay node asked again: tests move both clocks."""
DIFFERENCE_LOGGED_MS = 5_000
"""A larger difference to this machine's clock is logged, once for each producer."""

logger = logging.getLogger("qmq.client")


@dataclass(eq=False, repr=False)
class DelayClock:
    """The wall clock of the delay nodes, for durations that begin now, whatever the wall clock of this machine shows.

    The first of a subject's delay nodes that answers is asked. The result is never behind that node's clock, so that no message is
    early, and ahead of it by the round trip and two milliseconds at most. Between two answers, time is counted by this machine's
    monotonic clock. Delay nodes of the official server have no command for it.
    """

    _session: MetaSession
    _pool: Pool
    _timeouts: Timeouts
    _backoff: Backoff
    _clock: Clock
    _stopped: Callable[[], SendFailed | None]
    """Returns why the producer can send no more."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _ahead_ms: float | None = field(default=None, init=False)
    """The nodes' wall clock minus this machine's monotonic clock; None: the nodes have no command for it, or it is unknown."""
    _updated_at: float | None = field(default=None, init=False)
    """Monotonic time of the newest answer or attempt to get one; None: there was no answer yet."""
    _own_ahead_ms: float = field(default=0.0, init=False)
    """This machine's wall clock minus its monotonic clock, then."""
    _is_difference_logged: bool = field(default=False, init=False)

    def wall_ms(self, monotonic: float) -> int | None:
        """The time of the delay nodes at a monotonic time, after `update`; None: they have no command for it."""
        return None if self._ahead_ms is None else math.ceil(monotonic * 1000 + self._ahead_ms)

    async def update(self, subject: str, give_up_at: float) -> None:
        """Ask a delay node of the subject for its time if that was not done within REFRESH_SECONDS.

        Waits for the first answer until a loop time. Raises SendFailed without one, or if the producer is closed.
        """
        if self._is_fresh():
            return
        async with self._lock:
            failures = 0
            while not self._is_fresh():
                problem = await self._ask_any(subject, give_up_at)
                if not problem:
                    return
                if self._updated_at is not None:
                    self._set_updated()
                    return
                failures += 1
                await self._pause(failures, problem, give_up_at)

    def _is_fresh(self) -> bool:
        return (
            self._updated_at is not None
            and self._clock.monotonic() - self._updated_at < REFRESH_SECONDS
            and abs(self._own_difference_ms() - self._own_ahead_ms) < STEP_MS
        )

    def _own_difference_ms(self) -> float:
        return self._clock.wall_ms() - self._clock.monotonic() * 1000

    def _set_updated(self) -> None:
        self._updated_at, self._own_ahead_ms = self._clock.monotonic(), self._own_difference_ms()

    async def _pause(self, failures: int, problem: str, give_up_at: float) -> None:
        if (error := self._stopped()) is not None:
            raise error
        now, pause = asyncio.get_running_loop().time(), self._backoff.pause(failures)
        if now + pause >= give_up_at:
            raise SendFailed(
                f"the message was not sent: the delay nodes, by whose clock its delay is counted, could not be asked for the time:"
                f" {problem}",
                retriable=True,
            )
        await asyncio.sleep(pause)

    async def _ask_any(self, subject: str, give_up_at: float) -> str:
        """Ask the delay nodes of the subject until one answers; why none did, "" when one did."""
        problem = "no delay group accepts messages"
        try:
            async with asyncio.timeout_at(give_up_at):
                routes = await self._session.wait_routes(subject, ClientType.DELAY_PRODUCER)
                for route in usable(routes, WRITABLE):
                    try:
                        await self._ask(route.master)
                        return ""
                    except QmqError as error:
                        problem = f"{route.name}: {error}"
        except TimeoutError:
            problem = "no answer yet"
        except QmqError as error:
            problem = str(error)
        return problem

    async def _ask(self, address: str) -> None:
        caller = await self._pool.get(address)
        seconds = self._timeouts.send if self._updated_at is None else min(self._timeouts.send, REFRESH_ANSWER_SECONDS)
        began = self._clock.monotonic()
        frame = await OwnCommands.shared().call(caller, Command.DELAY_CLOCK, b"", timeout_s=seconds)
        if frame is None:
            self._ahead_ms = None
        elif frame.code != ResponseCode.SUCCESS:
            raise ProtocolError(f"{address} returned code {frame.code} when it was asked for its time")
        else:
            # The node's time is up to a millisecond later than it states.
            self._ahead_ms = DelayClockResponse.decode(frame.body).now_ms + 1 - began * 1000
            self._log_difference(address)
        self._set_updated()

    def _log_difference(self, address: str) -> None:
        assert self._ahead_ms is not None
        ahead_ms = self._clock.monotonic() * 1000 + self._ahead_ms - self._clock.wall_ms()
        if abs(ahead_ms) <= DIFFERENCE_LOGGED_MS or self._is_difference_logged:
            return
        self._is_difference_logged = True
        logger.warning(
            "the clock of this machine is %.1f s %s that of delay node %s. `delay=` is counted by the delay node's clock; `due=`"
            " means what it says. Check the time synchronization of both machines",
            abs(ahead_ms) / 1000, "behind" if ahead_ms > 0 else "ahead of", address,
        )  # fmt: skip
