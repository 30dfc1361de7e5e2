"""class RoleChanges: how often the node of a process changed its role in its broker group."""

from collections import Counter
from dataclasses import dataclass, field

from qmq.protocol.codes import ReplicaRole


@dataclass(eq=False, repr=False)
class RoleChanges:
    """Counts roles from the start of the process, also when the node begins another life in it."""

    by_role: Counter[str] = field(default_factory=Counter, init=False)
    """How often the node took a role, by its name in lower case."""
    resigned_at: float | None = field(default=None, init=False)
    """When the node, as master, last had a slave promoted because its disk has damage, in monotonic seconds; None: never."""
    _role: ReplicaRole = field(default=ReplicaRole.NONE, init=False)

    def became(self, role: ReplicaRole) -> None:
        """Count a role unless the node has it already. The first one is no change."""
        if role is self._role:
            return
        if self._role is not ReplicaRole.NONE:
            self.by_role[role.name.lower()] += 1
        self._role = role
