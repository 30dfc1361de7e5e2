"""Which flush policies a group of several members allows. Pure."""

from qmq_node.log.commit import FlushPolicy


def flush_problem(broker_group: str, flush: str) -> str:
    """Return why a node with this setting of `flush` can't be one of several members of its group; "" if it can.

    A confirmation states that the commit is on the disk of the member. With any other policy than `always` a power failure could
    take it back, and a message that every member has confirmed could be lost.
    """
    if FlushPolicy(flush) is FlushPolicy.ALWAYS:
        return ""
    return (
        f"flush is {flush}, and broker group {broker_group} has several members, which requires flush=always: start the node with"
        " --flush always"
    )
