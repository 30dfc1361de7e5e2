"""class SendGate: admits the messages of a send that a policy allows: closed subjects and quotas. No I/O, time handed in.

Without rules the cost is one look-up in an empty dict for each run of a send.
"""

from typing import NamedTuple

from qmq.clock import Clock
from qmq.protocol.names import SUBJECT_CLOSED, SUBJECT_OVER_QUOTA
from qmq.protocol.scan import Run
from qmq_node.policy import NodePolicy, SubjectPolicy

BURST_SECONDS = 1.0
"""Capacity of a bucket, in seconds of its rate."""


class TokenBucket:
    """A rate with a burst of one second; full at first.

    A request larger than the burst is admitted when the bucket is full and leaves it negative; otherwise it could never be
    admitted.
    """

    __slots__ = ("_at", "_burst", "_tokens", "per_second")

    def __init__(self, per_second: int, now: float) -> None:
        self.per_second = per_second
        self._burst = per_second * BURST_SECONDS
        self._tokens = self._burst
        self._at = now

    def refill(self, now: float) -> None:
        """Add the tokens of the time since the last call; `now` is monotonic seconds."""
        if now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self.per_second)
            self._at = now

    @property
    def whole(self) -> int:
        """How many requests of size 1 can be admitted now."""
        return max(0, int(self._tokens))

    def has(self, count: int) -> bool:
        """Whether a request of this size can be admitted now."""
        return self._tokens >= min(count, self._burst)

    def take(self, count: int) -> None:
        """Remove the tokens of an admitted request."""
        self._tokens -= count


class Refusal(NamedTuple):
    """Why the rest of a run is refused: a remark for the producer, and the reason by which metrics count."""

    remark: str
    reason: str


class _Rule:
    """The rules for sends of one subject."""

    __slots__ = ("_bytes", "_messages", "is_closed", "key", "refusal")

    def __init__(self, subject: str, policy: SubjectPolicy, now: float) -> None:
        self.key = _key(policy)
        self.is_closed, *rates = self.key
        self._messages, self._bytes = (None if rate is None else TokenBucket(rate, now) for rate in rates)
        if policy.closed:
            self.refusal = Refusal(f"{SUBJECT_CLOSED}: subject {subject} accepts no new messages", "closed")
        else:
            units = zip(rates, ("messages", "bytes"), strict=True)
            quota = " and ".join(f"{rate} {unit} a second" for rate, unit in units if rate is not None)
            text = f"{SUBJECT_OVER_QUOTA}: the quota of subject {subject} is {quota}; retry later"
            self.refusal = Refusal(text, "quota")

    def admit(self, run: Run, now: float) -> int:
        """How many messages of the run are admitted, from its first on: none after a refused one, to keep their order."""
        if self.is_closed:
            return 0
        messages, size_bucket = self._messages, self._bytes
        for bucket in (messages, size_bucket):
            if bucket is not None:
                bucket.refill(now)
        count = run.count if messages is None else min(run.count, messages.whole)
        if size_bucket is not None:
            for place, size in enumerate(run.raw_sizes()[:count]):
                if not size_bucket.has(size):
                    count = place
                    break
                size_bucket.take(size)
        if messages is not None:
            messages.take(count)
        return count


def _key(policy: SubjectPolicy) -> tuple[bool, int | None, int | None]:
    """The values of a policy that apply to sends."""
    return policy.closed, policy.messages_per_second, policy.bytes_per_second


class SendGate:
    """The rules in force for sends. It has one bucket for each quota of the policy, whose limit bounds their number."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rules: dict[str, _Rule] = {}

    def apply(self, policy: NodePolicy) -> None:
        """Apply this policy from now on; a subject whose rules are unchanged keeps its bucket."""
        now = self._clock.monotonic()
        rules = {}
        for subject, wanted in policy.subjects.items():
            if wanted.closed or wanted.has_quota:
                old = self._rules.get(subject)
                rules[subject] = old if old is not None and old.key == _key(wanted) else _Rule(subject, wanted, now)
        self._rules = rules

    def __len__(self) -> int:
        return len(self._rules)

    def judge(self, run: Run) -> tuple[int, Refusal | None]:
        """How many messages of a run are admitted, from its first on, and why the rest is not (None: all are)."""
        rule = self._rules.get(run.subject)
        if rule is None:
            return run.count, None
        taken = rule.admit(run, self._clock.monotonic())
        return taken, None if taken == run.count else rule.refusal
