"""class GroupCommit: whether a commit waits for further requests, so that one sync serves them all."""

from qmq.clock import Clock

GATHER_SECONDS = 0.001
"""How long after a commit the next one waits for others to share its sync; also how long answers that are not urgent, such as
those of acks, wait for another commit before one is made for them alone."""
SMALL_COMMIT_BYTES = 64 << 10
"""After a larger commit the next one does not wait: writing the bytes takes most of the time, so a shared sync saves little."""
COMMITS_PASSED_MAX = 63
"""Commits that start without waiting after a failed wait: 1 after the first failure, then 3, 7 and so on, up to this."""


class GroupCommit:
    """Decides how many requests the next commit waits for.

    Clients that wait for responses send their next requests soon after receiving them. If a commit started with the first of these
    requests, the others would need a second commit, and the clients would stay split in two groups, with twice as many commits.
    So a commit waits until as many requests are pending as when the last commit completed, answered ones included. A wait fails
    unless all of them arrive, and none during the commit: clients that do not wait for responses gain nothing from it.
    """

    __slots__ = ("_clock", "_expected", "_is_partial", "_is_whole", "_passed", "_to_pass", "_until", "is_off")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.is_off = False
        """Whether commits start without waiting."""
        self._expected, self._until = 0, 0.0
        self._is_partial = self._is_whole = False
        self._passed = self._to_pass = 0

    def completed(self, requests: int, came_meanwhile: int, commit_bytes: int) -> None:
        """A commit is complete, or commits of a replicated log are confirmed; this number of requests waited for it or
        came meanwhile."""
        if self._is_whole:
            self._learn(is_in_vain=came_meanwhile > 0)
        if self._to_pass:
            self._to_pass -= 1
        elif commit_bytes <= SMALL_COMMIT_BYTES and not self._is_partial:
            self._expected, self._until = requests, self._clock.monotonic() + GATHER_SECONDS

    def expects_more(self, requests: int) -> bool:
        """Whether the next commit should wait, although this number of requests waits for it."""
        return requests < self._expected and not self.is_off and self._clock.monotonic() < self._until

    def begun(self, requests: int, *, is_partial: bool) -> None:
        """A commit begins, for which this number of requests waits; with `is_partial` the next one has to follow at once."""
        self._is_whole = 0 < self._expected <= requests
        if requests < self._expected:
            self._learn(is_in_vain=True)
        self._expected, self._is_partial = 0, is_partial

    def _learn(self, *, is_in_vain: bool) -> None:
        self._passed = self._to_pass = min(2 * self._passed + 1, COMMITS_PASSED_MAX) if is_in_vain else 0
