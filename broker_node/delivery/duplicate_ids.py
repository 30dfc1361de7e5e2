"""Consumer ids that two live processes use at the same time: found, logged and counted."""

import logging

from broker_node.storage.progress import Consumer
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.names import split_subject

DUPLICATES_MAX = 10_000
"""Most consumers listed; those beyond it are handled in the same way, but not reported."""

logger = logging.getLogger("qmq.broker.delivery")


class DuplicateIds:
    """Consumers with two live sessions that both are used."""

    def __init__(self, lease_seconds: float) -> None:
        self._lease_seconds = lease_seconds
        self._consumers: dict[tuple[str, str, str], Consumer] = {}
        self._limiter = LogLimiter(60.0)

    def note(self, subject: str, group: str, consumer: Consumer, now: float) -> None:
        """Record a consumer whose sessions are duplicates, and log it with a back-off."""
        key = (subject, group, consumer.consumer_id)
        if not consumer.sessions.are_duplicates(now, self._lease_seconds):
            self._consumers.pop(key, None)
            return
        if len(self._consumers) < DUPLICATES_MAX:
            self._consumers[key] = consumer
        if self._limiter.admit((group, consumer.consumer_id), now) is not None:
            logger.warning(
                "consumer id %s of group %s is used by several connections at the same time (%s): give each process an"
                " id of its own; what one connection holds is not delivered to the others",
                consumer.consumer_id, group, ", ".join(self.addresses(consumer, now)),
            )  # fmt: skip

    def addresses(self, consumer: Consumer, now: float) -> list[str]:
        """`host:port` of the connections that use a consumer's id at the same time; empty when it is one only."""
        if not consumer.sessions.are_duplicates(now, self._lease_seconds):
            return []
        peers = [session.peer for session in consumer.sessions.alive(now, self._lease_seconds)]
        return [peer.peer for peer in peers if peer is not None]

    def count(self, now: float) -> int:
        """Distinct consumer ids, by real subject and group, that are duplicates now."""
        for key, consumer in list(self._consumers.items()):
            if not consumer.sessions.are_duplicates(now, self._lease_seconds):
                del self._consumers[key]
        return len({(split_subject(subject).subject, group, name) for subject, group, name in self._consumers})
