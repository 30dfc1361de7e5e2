"""The ages that retention goes by: the time that passed while the broker ran.

What retention deletes can't be called back, and an age is a difference of two wall times. A wall clock that steps forward, or a
broker that was away, would make all messages too old at once. So such a gap does not count towards the age of anything for as long
as that is kept. By then all that was stored before the gap is gone, by its own age, and to what was stored after it the gap makes
no difference. Rule: reference/broker-peers.md, F25.

Gaps are in the file `retention_clock` of the broker's folder, so that a restart leaves them out, too. A graceful stop writes its
time there: an idle broker that is restarted was not away since its newest record. After a kill that record is the last known of it.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from qmq.clock import Clock
from qmq_node.log.atomic_file import CheckedFile
from qmq_node.log.disk import Disk

logger = logging.getLogger("qmq.broker.retention")

STEP_ACCEPTED_MS = 1_000
"""Steps up to this much from one look to the next count: the two clocks always drift apart a little."""
AWAY_ACCEPTED_MS = 600_000
"""A start up to this long after the broker last ran counts the time between."""
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

    def __init__(self, clock: Clock, keep_ms: int, gaps: Sequence[Gap] = (), ran_ms: int | None = None) -> None:
        """Begin with the wall clock.

        Args:
            keep_ms: the longest that anything is kept.
            gaps: those of the process before.
            ran_ms: wall time when the broker last ran, as far as is known; None when it never did.
        """
        self._clock = clock
        self._keep_ms = keep_ms
        self._wall_ms = clock.wall_ms()
        self._at = clock.monotonic()
        self._gaps = list(gaps)
        if ran_ms is not None and self._wall_ms - ran_ms > AWAY_ACCEPTED_MS:
            self._add(self._wall_ms - ran_ms, "in which the broker did not run")

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
    """The gaps and the wall time of writing on disk, as JSON. One thread at a time."""

    NAME = "retention_clock"
    BYTES_MAX = 64 * 1024

    def __init__(self, disk: Disk, folder: str) -> None:
        self._file = CheckedFile(disk, folder, self.NAME, self.BYTES_MAX)
        self._kept: Sequence[Gap] | None = None
        """Those of the file; None when that is not known."""

    def load(self) -> tuple[Sequence[Gap], int | None]:
        """Return the gaps that were kept last, and the wall time in milliseconds when they were; None without a file.

        Raises OSError for a file that can't be read, or is damaged.
        """
        content = self._file.load()
        found: list[Gap] = []
        wall_ms = None
        if content is not None:
            try:
                document = json.loads(content)
                found = [Gap(int(ms), float(age_ms)) for ms, age_ms in document["gaps"]]
                wall_ms = int(document["wall_ms"])
            except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
                raise OSError(f"{self._file.path} is damaged: {error}") from error
        self._kept = found
        return found, wall_ms

    def is_kept(self, gaps: Sequence[Gap]) -> bool:
        """Return whether the file has these gaps, as exactly as AGE_KEPT_MS demands."""
        kept = self._kept
        return (
            kept is not None
            and [gap.ms for gap in gaps] == [gap.ms for gap in kept]
            and all(gap.age_ms - old.age_ms < AGE_KEPT_MS for gap, old in zip(gaps, kept, strict=True))
        )

    def keep(self, gaps: Sequence[Gap], wall_ms: int) -> None:
        """Write the gaps and the current wall time; durable when this returns. OSError: the next call writes them again."""
        self._kept = None
        document = {"wall_ms": wall_ms, "gaps": [[gap.ms, round(gap.age_ms)] for gap in gaps]}
        self._file.save(json.dumps(document).encode())
        self._kept = gaps
