"""What met a change of master in a run: a schedule whose retries or delayed messages never do tests nothing of them."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from qmq.protocol.names import RETRY_PREFIX
from qmq_node.replication.rules.membership import Membership
from tests.sim.swarm.history import Got, History
from tests.sim.swarm.workload import true_ms
from tests.sim.world.cluster import Cluster

SOON_MS = 10_000
"""A delivery met a change of master that happened at most so long before it, and after the message was stored or about to be."""
DUE_MS = 3_000
"""The delay node tries to deliver a message again and again while its group has no master: it was about to be stored when a
change happened at most so long before its time."""
INGREDIENTS = (
    "plain",
    "retries",
    "dead letters",
    "delayed",
    "tags",
    "broadcast",
    "at most once",
    "exact acks",
    "two sends",
)


class Meetings:
    """Counts, by ingredient, the deliveries that met a change of master."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self._cluster, self._history = cluster, history
        self._changes: dict[str, list[int]] = defaultdict(list)
        """By broker group: when another member was promoted, in true milliseconds."""
        cluster.database.on_membership.append(self._membership_changed)

    def _membership_changed(self, group: str, before: Membership, membership: Membership) -> None:
        if before.master and membership.master != before.master:
            self._changes[group].append(true_ms(self._cluster))

    def counts(self) -> dict[str, int]:
        """Return the counts of a run, under names that begin with `met: `."""
        found = Counter({"changes of master": sum(map(len, self._changes.values()))})
        dead: set[tuple[str, str]] = set()
        for one in self._history.got:
            if not self._met(one):
                continue
            found.update(f"met: {name}" for name in self._ingredients(one))
            if (one.group, one.message_id) in self._history.dead:
                dead.add((one.group, one.message_id))
        found["met: dead letters"] = len(dead)
        return dict(found)

    def _met(self, one: Got) -> bool:
        sent = self._history.sent.get(one.message_id)
        if sent is None:
            return False
        begin = sent.at_ms if sent.due_ms is None else sent.due_ms - DUE_MS
        return any(begin <= at <= one.at_ms <= at + SOON_MS for at in self._changes[one.broker_group])

    def _ingredients(self, one: Got) -> Iterator[str]:
        sent = self._history.sent[one.message_id]
        if one.source.startswith(RETRY_PREFIX):
            yield "retries"
        if sent.due_ms is not None:
            yield "delayed"
        if sent.attempts > 1:
            yield "two sends"
        kind = one.group.partition("-")[0]
        yield {"tags": "tags", "broadcast": "broadcast", "once": "at most once", "raw": "exact acks"}.get(kind, "plain")
