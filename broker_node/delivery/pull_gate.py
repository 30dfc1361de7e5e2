"""Which pulls a policy holds or refuses: paused groups and consumers, groups that a subject does not allow. No I/O.

A group's retry subject goes with its real one: a paused group gets no retried message, and a group that may not read a subject
does not read it by way of another group's retries. Dead letters are left to operators.
"""

from collections.abc import Iterable

from qmq.net.log_limiter import LogLimiter
from qmq.protocol.commands import PullRequest
from qmq.protocol.names import split_subject
from qmq_node.policy import NodePolicy, Pause

SAY_SECONDS = 60.0
"""A refused group is logged at most this often, with a back-off."""


class PullGate:
    """The rules in force for pulls; false when there are none."""

    def __init__(self) -> None:
        self._paused: frozenset[Pause] = frozenset()
        self._allowed: dict[str, frozenset[str]] = {}
        self._limiter = LogLimiter(SAY_SECONDS)

    def apply(self, policy: NodePolicy) -> Iterable[Pause]:
        """Judge by this policy from now on; the pauses that ended with it."""
        ended = self._paused - policy.paused
        self._paused = policy.paused
        self._allowed = {
            subject: frozenset(rules.allowed_groups)
            for subject, rules in policy.subjects.items()
            if rules.allowed_groups is not None
        }
        return ended

    def __bool__(self) -> bool:
        return bool(self._paused or self._allowed)

    def is_paused(self, request: PullRequest) -> bool:
        """Whether the pull's group, or its consumer, is to get nothing."""
        if not self._paused:
            return False
        subject, group = _real(request.subject), request.group
        return (subject, group, "") in self._paused or (subject, group, request.consumer_id) in self._paused

    def allows(self, request: PullRequest) -> bool:
        """Whether the pull's group may read the subject at all."""
        allowed = self._allowed.get(_real(request.subject)) if self._allowed else None
        return allowed is None or request.group in allowed

    def is_new_refusal(self, request: PullRequest, now: float) -> bool:
        """Whether a refusal is worth a line in the log; `now` is monotonic seconds."""
        return self._limiter.admit((request.subject, request.group), now) is not None


def _real(name: str) -> str:
    """The subject whose rules count for a pull; for a dead-letter subject its own name, which no rule has."""
    if not name.startswith("%"):
        return name
    parts = split_subject(name)
    return name if parts.kind == "dead" else parts.subject
