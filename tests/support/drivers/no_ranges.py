"""A sync port of a node that repairs nothing for other members."""

from qmq.clock import Clock
from qmq_node.repair.serving import RangeServing
from qmq_node.replication.rate_limit import RateLimit
from qmq_node.replication.rules.roles import ReplicaState


def no_ranges(clock: Clock) -> RangeServing:
    """Return what answers READ_RANGE of a node that knows no membership: it refuses all."""
    return RangeServing("g1", "m", ReplicaState, lambda: None, lambda _: None, RateLimit(clock, 0))
