"""What a metaserver knows of how fit the members of a broker group are to lead it. Pure, time handed in.

A promotion of any member of the set is safe, so this only decides which one is preferred, and how often one is tried again:

- A member that can't lead now says so in its heartbeats (`NodeRegisterRequest.problems`): it is not promoted.
- A member that could lead with a restriction, such as a full disk, says that, too (`limitations`): others are preferred.
- A member whose problem has ended, or that could not lead when it was promoted, may fail again: others are preferred for
  AVOIDED_SECONDS, which double each time.
- A member that could not lead is not promoted at all for PAUSE_SECONDS, which double: not even if it is the only one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from qmq_node.replication.rules.growing_pause import GrowingPause

AVOIDED_SECONDS, AVOIDED_SECONDS_MAX = 10.0, 600.0
"""How long others are preferred to a member that had a problem or could not lead: at first, and at most."""
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.5, 30.0
"""How long a member that could not lead is not promoted again: at first, and at most."""
CUT_OFF_SECONDS, CUT_OFF_SECONDS_MAX = 10.0, 600.0
"""How long no further master is replaced only because it is cut off from its slaves: at first, and at most."""


@dataclass(slots=True)
class MemberFitness:
    """One member."""

    avoided: GrowingPause = field(default_factory=lambda: GrowingPause(AVOIDED_SECONDS, AVOIDED_SECONDS_MAX))
    paused: GrowingPause = field(default_factory=lambda: GrowingPause(PAUSE_SECONDS, PAUSE_SECONDS_MAX))
    has_problem: bool = False
    """Whether its last heartbeat named one."""


@dataclass(slots=True)
class Fitness:
    """The members of one broker group. What is not known, also after a start of the metaserver, counts as fit."""

    _members: dict[str, MemberFitness] = field(default_factory=dict)
    _unproven: str = ""
    """The master, as long as it has not served in its epoch; "" when it has, or has failed."""
    _cut_off: GrowingPause = field(default_factory=lambda: GrowingPause(CUT_OFF_SECONDS, CUT_OFF_SECONDS_MAX))

    # --- what happens ----------------------------------------------------------------------------------------------

    def epoch_began(self, members: Sequence[str], master: str, now: float) -> None:
        """A member was promoted. If the master before it has not served, it could not lead."""
        self.could_not_lead(now)
        self._members = {name: known for name, known in self._members.items() if name in members}
        self._unproven = master

    def served(self, master: str) -> None:
        """The master serves in its epoch."""
        if self._unproven == master:
            self._unproven = ""

    def could_not_lead(self, now: float) -> None:
        """The group needs another master. If the one that was promoted has not served, it could not lead."""
        if self._unproven:
            member = self._member(self._unproven)
            member.avoided.failed(now)
            member.paused.failed(now)
            self._unproven = ""

    def cut_off(self, now: float) -> None:
        """A master is replaced because it is cut off from its slaves."""
        self._cut_off.failed(now)

    def reported(self, node_id: str, *, has_problem: bool, now: float) -> None:
        """A heartbeat of a member arrived."""
        known = self._members.get(node_id)
        if known is None and not has_problem:
            return
        member = known or self._member(node_id)
        if has_problem and not member.has_problem:
            member.avoided.failed(now)
        elif has_problem:
            member.avoided.renew(now)
        member.has_problem = has_problem

    # --- what follows ----------------------------------------------------------------------------------------------

    def problem(self, node_id: str, now: float) -> str:
        """Return why a member is not promoted now; "" if it may be."""
        member = self._members.get(node_id)
        if member is None or not member.paused.remaining(now):
            return ""
        return f"it could not lead when it was promoted, {member.paused.failures} in a row; it is tried again after a pause"

    def is_avoided(self, node_id: str, now: float) -> bool:
        """Whether another member is promoted instead, if one can be."""
        member = self._members.get(node_id)
        return member is not None and member.avoided.remaining(now) > 0

    def may_replace_cut_off(self, now: float) -> bool:
        """Whether a master may be replaced only because it is cut off from its slaves."""
        return not self._cut_off.remaining(now)

    def _member(self, node_id: str) -> MemberFitness:
        return self._members.setdefault(node_id, MemberFitness())
