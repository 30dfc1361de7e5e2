"""class SyncSharing: when the commits of a slave share syncs. Pure, time handed in.

A shared sync costs two, the one of the commits and the one of the proof, so it pays when more than two commits wait.
"""

from dataclasses import dataclass, field

SHARING_WAITED_SECONDS = 0.1
"""Commits that waited so long to be written, while further ones arrived, share syncs from then on."""
SHARING_WAITING_MIN = 4
"""The number of frames with commits that have to wait then."""
SHARED_COMMITS_MAX = 2_000
"""Commits that share one sync: checking them takes some 10 ms."""
SHARED_BYTES_MAX = 8 << 20
"""Their bytes. The last frame with commits may exceed both."""
SHARING_SECONDS_MIN = 10.0
"""Syncs are shared for at least so long."""
SHARED_COMMITS_FEW = 1.5
"""If syncs had this many commits on average for so long, or fewer, each commit gets its own sync again: these syncs are
fewer."""


@dataclass(eq=False, repr=False, slots=True)
class SyncSharing:
    """For the thread that writes. Times are monotonic seconds."""

    _since: float = field(default=0.0, init=False)
    """When the counts began."""
    _commits: int = field(default=0, init=False)
    _syncs: int = field(default=0, init=False)

    def is_needed(self, waited_seconds: float, waiting: int) -> bool:
        """Whether syncs are to be shared although they are not yet.

        Args:
            waited_seconds: how long the commits that come next have waited.
            waiting: the number of frames with commits that wait with them.
        """
        return waited_seconds >= SHARING_WAITED_SECONDS and waiting >= SHARING_WAITING_MIN

    def began(self, now: float) -> None:
        """Syncs are shared from now on."""
        self._since, self._commits, self._syncs = now, 0, 0

    def shared(self, commits: int) -> None:
        """A number of commits have shared a sync."""
        self._commits += commits
        self._syncs += 1

    def may_end(self, now: float) -> bool:
        """Whether each commit is to have its own sync again. After SHARING_SECONDS_MIN the counts begin again."""
        if now - self._since < SHARING_SECONDS_MIN:
            return False
        is_seldom = self._commits <= SHARED_COMMITS_FEW * self._syncs
        self.began(now)
        return is_seldom
