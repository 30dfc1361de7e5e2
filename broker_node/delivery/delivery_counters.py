"""What pulls and acks count."""

from dataclasses import dataclass

from qmq_node.process.counters import counted


@dataclass(slots=True)
class DeliveryCounters:
    """Counts since start, for metrics."""

    pulled: int = counted("pulled_messages", "Messages delivered for the first time (pulledMessagesCount)")
    redelivered: int = counted("redelivered_messages", "Messages redelivered")
    acked: int = counted("acked_messages", "Acknowledged messages (consumerAckCount)")
    settled: int = counted("settled_messages", "Messages retried because their consumer left")
    """Messages moved to their retry subject because their consumer left, fell silent or jumped over them."""
    duplicate_acks: int = counted(
        "duplicate_acks", "Acks of messages that were already acknowledged (consumerDuplicateAckCount)"
    )
    lost_acks: int = counted("lost_acks", "Acks of unknown messages (consumerLostAckCount)")
    fell_behind: int = counted("behind_retention_messages", "Messages deleted before a group pulled them")
