"""Where a consumer group is set to: the one place that turns "earliest", "latest", a time or a sequence into a position."""

from dataclasses import dataclass

from broker_node.storage.actions import StartReason
from broker_node.storage.oldest_sequence import adjust_begin
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from qmq.errors import ProtocolError

STARTS = ("earliest", "latest", "time", "sequence")


async def without_time(subject: Subject, start: str, value: int) -> tuple[str, int]:
    """A start and its value; a time (milliseconds since the epoch) becomes the sequence that it means. Raises LogError."""
    return ("sequence", await subject.find_time(value)) if start == "time" else (start, value)


def _position_at(subject: Subject, start: str, value: int) -> int:
    """The consume sequence that `start` means, within what is stored. Raises ProtocolError for a time or an unknown start.

    `value` is a consume sequence for "sequence", else unused.
    """
    match start:
        case "earliest":
            return subject.begin
        case "latest":
            return subject.visible_end
        case "sequence":
            return min(max(value, subject.begin), subject.visible_end)
    raise ProtocolError(f"a group can't start at {start!r}: earliest, latest, time or sequence")


def set_position(
    store: MessageStore, subject: Subject, name: str, start: str, value: int, broadcast: bool
) -> tuple[Group, bool]:
    """Make a group at a place, or set it there; (group, whether it is new). Durable once its `applied_at` is synced.

    Raises ProtocolError for a start that `without_time` does not return, DiskWork, or LimitReached when one more group does not
    fit.
    """
    adjust_begin(store, subject)
    is_new = name not in subject.groups
    position = _position_at(subject, start, value)
    reason = StartReason.ENSURED if is_new else StartReason.RESET
    return store.start_group(subject, name, "", position, broadcast, reason), is_new


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What setting a group's position would do; counts are messages of the subject's stored range."""

    exists: bool
    position: int | None
    """The group's next sequence now; None for a group that is not there yet."""
    new_position: int
    skipped: int
    """Not pulled yet, and passed over."""
    repeated: int
    """Passed before (pulled, or left out by a filter), and checked again."""
    in_flight: int
    """Pulled and not acked now, over all consumers; a reset does not touch them."""
    repeated_in_flight: int
    """Those in flight that are delivered a second time while a consumer still holds them."""


def plan_reset(store: MessageStore, subject: Subject, name: str, start: str, value: int) -> ResetPlan:
    """What `set_position` would do now; changes nothing. Raises ProtocolError and DiskWork as it does."""
    adjust_begin(store, subject)
    target = _position_at(subject, start, value)
    group = subject.groups.get(name)
    if group is None:
        return ResetPlan(False, None, target, 0, 0, 0, 0)
    progress = group.progress
    position = progress.next_sequence
    held = 0
    for consumer in progress.consumers.values():
        for run in consumer.log.runs():
            held += max(0, min(run.begin + run.count, position) - max(run.begin, target))
    return ResetPlan(
        exists=True,
        position=position,
        new_position=target,
        skipped=max(0, target - max(position, subject.begin)),
        repeated=max(0, min(position, subject.visible_end) - target),
        in_flight=progress.in_flight,
        repeated_in_flight=held,
    )
