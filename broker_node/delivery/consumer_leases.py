"""Expires the leases of consumers: what silent ones hold is retried, and those that stay silent are removed."""

import logging
from collections import deque
from dataclasses import dataclass, field
from math import inf

from broker_node.delivery.pending_settlements import Settlements
from broker_node.delivery.settlement import SettlementRunner
from broker_node.storage.progress import Consumer
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from broker_node.storage.subject_table import LimitReached
from qmq_node.commits.committer import Committer
from qmq_node.slices import Pacer

logger = logging.getLogger("qmq.broker")

SWEEP_SUBJECTS_MAX = 2_000
"""Subjects checked for silent consumers in one run of the job; all of them in turn."""
SLICE_SUBJECTS = 200
"""Subjects checked in one iteration of the event loop."""
SWEEP_CONSUMERS_MAX = 100
"""Consumers settled, or forgotten, in one sweep."""
SETTLEMENTS_MAX = 1_000
"""Settlements under way above which a sweep begins no more."""


@dataclass(eq=False, repr=False)
class ConsumerLeases:
    """Checks all consumers in turn."""

    _store: MessageStore
    _settlements: Settlements
    _runner: SettlementRunner
    _committer: Committer
    lease_seconds: float
    """A consumer that is silent for longer loses the messages that it holds."""
    forget_seconds: float
    """A consumer that is silent for longer and holds no messages is removed."""
    _to_sweep: deque[str] = field(default_factory=deque)

    async def check(self) -> None:
        """Check the next SWEEP_SUBJECTS_MAX subjects: retry messages of consumers whose lease expired, and deferred ones; remove
        consumers that have been silent for `forget_seconds`. Raises the first error of a consumer, after all others were handled.
        """
        self._runner.resume()
        for settlement in self._settlements.retry_deferred(SWEEP_CONSUMERS_MAX):
            self._runner.run(settlement)
        now = self._store.clock.monotonic()
        settled, failure = 0, None
        if not self._to_sweep:
            self._to_sweep.extend(self._store.subjects)
        pacer = Pacer(SLICE_SUBJECTS)
        for _ in range(SWEEP_SUBJECTS_MAX):
            await pacer.spend()
            if not self._to_sweep:
                break
            subject = self._store.subjects.get(self._to_sweep.popleft())
            if subject is None or now < subject.check_at:
                continue
            subject.check_at = inf
            for group in list(subject.groups.values()):
                for consumer in list(group.progress.consumers.values()):
                    if settled >= SWEEP_CONSUMERS_MAX:
                        subject.check_at = 0.0
                        break
                    try:
                        settled += self._settle_if_silent(subject, group, consumer, now)
                    except Exception as error:  # noqa: BLE001 - raised below, once the others were handled
                        settled += 1
                        failure = failure or error
                    subject.check_at = min(subject.check_at, consumer.check_at(self.lease_seconds, self.forget_seconds))
        if settled:
            self._committer.kick()
        if failure is not None:
            raise failure

    def _settle_if_silent(self, subject: Subject, group: Group, consumer: Consumer, now: float) -> bool:
        """Returns whether the consumer was silent for long enough to lose its messages or its place in the group."""
        lease, forget = self.lease_seconds, self.forget_seconds
        silent = now - consumer.seen_at
        presence = consumer.presence(now, lease)
        if presence != consumer.reported:
            consumer.reported = presence
            subject.changed()
        settlements = self._settlements
        if silent < lease and settlements.abandoned(group, consumer, now):
            settle, why = settlements.settle_abandoned, "they are held by a connection that is gone"
        elif silent >= lease and consumer.log.in_flight and not group.progress.broadcast:
            settle, why = settlements.settle, f"it is silent for {silent:.0f} s"
        elif silent >= max(lease, forget) and not consumer.log.in_flight:
            settlements.leave(subject, group, consumer)
            return True
        else:
            return False
        if len(settlements.running) >= SETTLEMENTS_MAX:
            return False
        try:
            settlement = settle(subject, group, consumer)
        except LimitReached as error:
            logger.warning("consumer %s of group %s keeps its unacked messages of %s: %s",
                consumer.consumer_id, group.progress.group, subject.name, error,
            )  # fmt: skip
            return False
        if settlement is None:
            # One is under way, or not possible.
            return False
        logger.info(
            "consumer %s of group %s: unacked messages of %s are retried, %s",
            consumer.consumer_id, group.progress.group, subject.name, why,
        )  # fmt: skip
        self._runner.run(settlement)
        return True
