"""class LogChanges: changes of a slave's log after which the node opens it again."""

from dataclasses import dataclass, field

from qmq.errors import LogError
from qmq_node.log.truncation import Truncation
from qmq_node.member.shell import Shell
from qmq_node.process.life import LifeEnded


@dataclass(eq=False, repr=False)
class LogChanges:
    """Ends the life of the node, with an error of the disk if there is one."""

    _shell: Shell
    is_begun: bool = field(default=False, init=False)
    """A change was begun. The next life does what the membership says."""

    async def truncate(self, to: Truncation) -> None:
        """Remove what the new master does not have; it was never acknowledged."""
        self.is_begun = True
        try:
            await self._shell.truncate(to)
        except (LogError, OSError) as error:
            self._shell.end(error)
            return
        self._shell.end(LifeEnded(f"the log was truncated to offset {to.end}, which begins epoch {to.epoch}"))

    async def discard(self, why: str) -> None:
        """Have the next life replace the log by a copy of the master's. The master knows that the set is without this node."""
        self.is_begun = True
        try:
            await self._shell.discard_log()
        except OSError as error:
            self._shell.end(error)
            return
        self._shell.end(LifeEnded(why))
