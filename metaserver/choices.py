"""States and kinds as the database, the API and the console name them, and their numbers on the wire."""

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


class OperatorState(StrEnum):
    """What an operator decided about a broker group; it restricts what the group does, never extends it."""

    UNAPPROVED = "unapproved"
    """Registered for the first time and pending approval: not in service, and no process connects to its nodes."""
    NORMAL = "normal"
    READ_ONLY = "read_only"
    DRAINING = "draining"
    """Accepts no new messages; its subjects move to other groups, and it can be removed when it is empty."""


def effective_state(reported: str, operator_state: str) -> GroupState:
    """What a broker group does for clients: what its master reports, restricted by the operator state."""
    if operator_state != OperatorState.NORMAL and reported == GroupState.READ_WRITE:
        return GroupState.READ_ONLY
    return GroupState(reported)


class Phase(StrEnum):
    """Phase of a broker group that is added to or removed from a subject. Without a phase it is readable and writable."""

    JOINING = "joining"
    """Readable and not yet writable: its consumer groups are created first, so that none misses a message."""
    LEAVING = "leaving"
    """Writable until every joining group is; then it drains."""
    DRAINING = "draining"
    """Accepts no new messages of the subject, is readable until it is empty, and is then removed from the route."""


STATE_ON_WIRE = {state: BrokerGroupState[state.name] for state in GroupState}
STATE_FROM_WIRE = {int(number): word for word, number in STATE_ON_WIRE.items()}
