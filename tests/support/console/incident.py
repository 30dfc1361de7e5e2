"""The hour of the demo that pictures of the documentation show: a failover, and a consumer group that falls behind and recovers."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually

MINUTES = 60.0
"""What the schedule below adds up to; a shorter run has the same schedule, faster."""
MASTER_KILLED = 25.0
GROUP_SLOW = 26.0
SHOWN = 35.0
"""Late enough for the alert on the missing copy, which waits five minutes."""
GROUP_QUICK = 36.0
MEMBER_STARTED = 38.0
FAILED_GROUP = "g1"
"""Its master is killed."""


class Moment(StrEnum):
    """When a picture is taken."""

    INCIDENT = "incident"
    END = "end"


@dataclass(frozen=True, slots=True)
class Schedule:
    """When what happens, in seconds after `moments` was called."""

    minutes: float
    """How long all of it takes; 0: no incident."""

    def at(self, minute: float) -> float:
        """The seconds of a minute of MINUTES."""
        return minute / MINUTES * self.minutes * 60

    @property
    def flags(self) -> tuple[str, ...]:
        """What the demo is started with."""
        if not self.minutes:
            return ()
        return "--incident", f"{self.at(GROUP_SLOW):g}", f"{self.at(GROUP_QUICK) - self.at(GROUP_SLOW):g}"

    def moments(
        self, system: System, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[Moment]:
        """Let the incident happen, and yield when to take which pictures."""
        start = clock()

        def wait_for(minute: float) -> None:
            sleep(max(0.0, start + self.at(minute) - clock()))

        if self.minutes:
            wait_for(MASTER_KILLED)
            master = system.group(FAILED_GROUP)["master"]
            system.members(FAILED_GROUP)[master].kill()
            eventually(
                lambda: system.group(FAILED_GROUP)["master"] not in (None, master),
                what="a new master",
                every_s=ASK_SECONDS,
            )
            wait_for(SHOWN)
            yield Moment.INCIDENT
            wait_for(MEMBER_STARTED)
            system.members(FAILED_GROUP)[master].start()
            wait_for(MINUTES)
        yield Moment.END
