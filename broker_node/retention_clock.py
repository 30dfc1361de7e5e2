"""The ages that retention goes by: the time that passed while the broker ran.

What retention deletes can't be called back, and an age is a difference of two wall times. A wall clock that steps forward, or a
broker that was away, would make all messages too old at once. So such a gap does not count towards the age of anything for as long
as that is kept. By then all that was stored before the gap is gone, by its own age, and to what was stored after it the gap makes
no difference. Rule: reference/broker-peers.md, F25.

Gaps are in the file `retention_clock` of the broker's folder while there are some, so that a restart leaves them out, too.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from qmq.clock import Clock
from qmq.log.checked_file import CheckedFile
from qmq.log.disk import Disk

logger = logging.getLogger("qmq.broker.retention")

STEP_ACCEPTED_MS = 1_000
"""Steps up to this much from one look to the next count: the two clocks always drift apart a little."""
AWAY_ACCEPTED_MS = 600_000
"""A start up to this long after the newest record counts the time between."""
GAPS_MAX = 100
"""Beyond, the two oldest become one."""
AGE_KEPT_MS = 60_000
"""A gap is written again when it is older by this much: a restart leaves it out for that much longer at most."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Wall time that does not count."""

    ms: int
    age_ms: float
    """Time that the broker ran since."""


class RetentionClock:
    """Judges what is too old. `before_ms` or `gaps` is to be called at least once a minute or so."""

    def __init__(self, clock: Clock, keep_ms: int, gaps: Sequence[Gap] = (), newest_ms: int | None = None) -> None:
        """Begin with the wall clock.

        Args:
            keep_ms: the longest that anything is kept.
            gaps: those of the process before.
            newest_ms: wall time of the newest record at the start; None when there is none.
        """
        self._clock = clock
        self._keep_ms = keep_ms
        self._wall_ms = clock.wall_ms()
        self._at = clock.monotonic()
        self._gaps = list(gaps)
        if newest_ms is not None and self._wall_ms - newest_ms > AWAY_ACCEPTED_MS:
            self._add(self._wall_ms - newest_ms, "since the newest record")

    def before_ms(self, keep_ms: int) -> int:
        """Return the wall time before which what is kept for `keep_ms` was stored if it is too old."""
        gaps = self.gaps()
        return self._wall_ms - keep_ms - sum(gap.ms for gap in gaps if gap.age_ms < keep_ms)

    def gaps(self) -> tuple[Gap, ...]:
        """Return the gaps that do not count now, the oldest first."""
        wall_ms, at = self._clock.wall_ms(), self._clock.monotonic()
        elapsed_ms = (at - self._at) * 1000
        step_ms = round(wall_ms - self._wall_ms - elapsed_ms)
        self._wall_ms, self._at = wall_ms, at
        older = (Gap(gap.ms, gap.age_ms + elapsed_ms) for gap in self._gaps)
        self._gaps = [gap for gap in older if gap.age_ms < self._keep_ms]
        if step_ms > STEP_ACCEPTED_MS:
            self._add(step_ms, "in a step of the wall clock")
        elif step_ms < -STEP_ACCEPTED_MS:
            self._take_back(-step_ms)
        return tuple(self._gaps)

    def _add(self, ms: int, why: str) -> None:
        logger.warning("%.0f s %s do not count towards the age of messages", ms / 1000, why)
        self._gaps.append(Gap(ms, 0.0))
        if len(self._gaps) > GAPS_MAX:
            oldest, second = self._gaps[:2]
            self._gaps[:2] = [Gap(oldest.ms + second.ms, second.age_ms)]

    def _take_back(self, ms: int) -> None:
        """The wall clock stepped back, over the newest gaps first."""
        while self._gaps and ms > 0:
            newest = self._gaps.pop()
            if newest.ms > ms:
                self._gaps.append(Gap(newest.ms - ms, newest.age_ms))
            ms -= newest.ms


class GapFile:
    """The gaps on disk: JSON, a pair of milliseconds and age each. One thread at a time."""

    NAME = "retention_clock"
    BYTES_MAX = 64 * 1024

    def __init__(self, disk: Disk, folder: str) -> None:
        self._file = CheckedFile(disk, folder, self.NAME, self.BYTES_MAX)
        self._kept: Sequence[Gap] | None = None
        """What the file says; None when that is not known."""

    def load(self) -> Sequence[Gap]:
        """Return the gaps that were kept last.

        Raises:
            OSError: the file can't be read, or is damaged.
        """
        content = self._file.load()
        if content is None:
            found = []
        else:
            try:
                found = [Gap(int(ms), float(age_ms)) for ms, age_ms in json.loads(content)]
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                raise OSError(f"{self._file.path} is damaged: {error}") from error
        self._kept = found
        return found

    def is_kept(self, gaps: Sequence[Gap]) -> bool:
        """Return whether the file has these gaps, as exactly as AGE_KEPT_MS demands."""
        kept = self._kept
        return (
            kept is not None
            and [gap.ms for gap in gaps] == [gap.ms for gap in kept]
            and all(gap.age_ms - old.age_ms < AGE_KEPT_MS for gap, old in zip(gaps, kept, strict=True))
        )

    def keep(self, gaps: Sequence[Gap]) -> None:
        """Write the gaps, or remove the file when there are none; durable when this returns.

        Raises:
            OSError: the file has the old gaps or these; the next call writes it again.
        """
        self._kept = None
        if gaps:
            self._file.save(json.dumps([[gap.ms, round(gap.age_ms)] for gap in gaps]).encode())
        else:
            self._file.remove()
        self._kept = gaps
