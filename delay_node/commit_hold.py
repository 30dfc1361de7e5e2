"""class CommitHold: keeps checkpoints out of the middle of a commit that a slave applies."""

import asyncio

from qmq.errors import LogError


class CommitHold:
    """Within a commit files and counters are those of no log position. On the event loop."""

    def __init__(self) -> None:
        self.is_within = False
        """Whether a commit of another node is applied in part."""
        self.checkpoint_waits = False
        """Whether a checkpoint waits for the end of the commit: it has its turn before the next one begins."""
        self._has_failed = False
        self._changed = asyncio.Event()

    def begin(self) -> None:
        """A commit begins."""
        self.is_within = True
        self._changed.clear()

    def end(self) -> None:
        """All of it is applied."""
        self.is_within = False
        self._changed.set()

    def fail(self) -> None:
        """The rest of it can't be applied: no state is taken until the store is opened again."""
        self._has_failed = True
        self._changed.set()

    async def between(self) -> None:
        """Return when no commit is applied in part. The state has to be taken before the event loop runs anything else.

        Raises LogError if one can't be applied to its end.
        """
        self.checkpoint_waits = True
        try:
            while self.is_within:
                if self._has_failed:
                    raise LogError("a commit is applied in part, and can't be to its end", code="log.failed")
                await self._changed.wait()
        finally:
            self.checkpoint_waits = False
