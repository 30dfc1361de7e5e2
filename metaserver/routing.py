"""Assigns broker groups to subjects. Pure."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from qmq.protocol.codes import BrokerGroupState, ClientType

if TYPE_CHECKING:
    from random import Random

SUBJECT_GROUPS_MIN = 2
"""Broker groups of a new subject, as in QMQ: one may fail and the subject stays writable."""

_USABLE = {
    ClientType.PRODUCER: {BrokerGroupState.READ_WRITE, BrokerGroupState.WRITE_ONLY},
    ClientType.DELAY_PRODUCER: {BrokerGroupState.READ_WRITE, BrokerGroupState.WRITE_ONLY},
    ClientType.CONSUMER: {BrokerGroupState.READ_WRITE, BrokerGroupState.READ_ONLY},
}


def assign(
    current: Sequence[str], live: Collection[str], rng: "Random", *, minimum: int = SUBJECT_GROUPS_MIN
) -> tuple[str, ...]:
    """The groups of a subject: those it has stay, in order; missing ones up to `minimum` are drawn from the live ones.

    Fewer are returned when fewer live.
    """
    chosen = list(current)
    candidates = sorted(set(live) - set(chosen))
    missing = max(0, minimum - len(chosen))
    chosen += rng.sample(candidates, min(missing, len(candidates)))
    return tuple(chosen)


def is_usable(client_type: int, state: int) -> bool:
    """Whether a client of this type can do anything with a broker group in this state."""
    return state in _USABLE.get(ClientType(client_type), set()) if client_type in set(_USABLE) else False
