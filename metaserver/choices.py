"""The words of database, API and UI for states and kinds, and the wire's numbers for them."""

from enum import StrEnum

from qmq.protocol.codes import BrokerGroupState


class GroupKind(StrEnum):
    """What a broker group's nodes do."""

    BROKER = "broker"
    DELAY = "delay"


class GroupState(StrEnum):
    """What a broker group does for clients."""

    READ_WRITE = "read_write"
    READ_ONLY = "read_only"
    WRITE_ONLY = "write_only"
    OFFLINE = "offline"


STATE_ON_WIRE = {
    GroupState.READ_WRITE: BrokerGroupState.READ_WRITE,
    GroupState.READ_ONLY: BrokerGroupState.READ_ONLY,
    GroupState.WRITE_ONLY: BrokerGroupState.WRITE_ONLY,
    GroupState.OFFLINE: BrokerGroupState.OFFLINE,
}
STATE_FROM_WIRE = {int(number): word for word, number in STATE_ON_WIRE.items()}
