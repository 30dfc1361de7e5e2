"""Which flush policies a group of several members allows. Pure."""

from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq_node.log.commit import FlushPolicy


def flush_problem(broker_group: str, flush: str) -> Reason:
    """Return why a node with this setting of `flush` can't be one of several members of its group; "" if it can.

    A confirmation states that the commit is on the disk of the member. With any other policy than `always` a power failure could
    take it back, and a message that every member has confirmed could be lost.
    """
    if FlushPolicy(flush) is FlushPolicy.ALWAYS:
        return NO_REASON
    return Reason.of(Code.FLUSH_NOT_ALWAYS, flush=flush, group=broker_group)
