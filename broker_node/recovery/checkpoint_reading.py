"""Fills an empty store from a checkpoint, or makes another member's checkpoint the one of this node.

The format is in `broker_node.recovery.checkpoint`.
"""

import json
import logging
from dataclasses import dataclass, replace
from struct import calcsize, unpack
from typing import Any

from broker_node.recovery.checkpoint import CHECKPOINT_FORMAT, HAS_FILES
from broker_node.recovery.known_state import KnownState
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import restore_groups
from qmq.errors import LogError
from qmq_node.log.checkpoint import Checkpoint, as_number, as_text
from qmq_node.log.index import DenseIndex
from qmq_node.log.replay import LogMemory
from qmq_node.log.tails_file import TailsPosition, TailsWrong

logger = logging.getLogger("qmq.broker.recovery")


class DerivedStateWrong(LogError):
    """A derived file does not hold what the checkpoint says: rebuild."""

    code = "log.derived_wrong"


@dataclass(frozen=True, slots=True)
class _Index:
    """What a checkpoint counts on of an index, and where the entries behind its files are."""

    index: DenseIndex
    begin: int | None
    """Of a consume log; a history begins with its first entry."""
    end: int
    what: str
    number: int


class _Places:
    """Where the entries of indexes are, in the order of the subjects' lines."""

    def __init__(self, data: bytes, count: int) -> None:
        code = f">{count}Q"
        if len(data) != calcsize(code):
            raise DerivedStateWrong(f"the checkpoint has {len(data)} bytes behind its lines, not {calcsize(code)}")
        self._values = iter(unpack(code, data))

    def next(self) -> tuple[int, bool]:
        """Return the number of the next index, and whether it has files."""
        value = next(self._values)
        return value & ~HAS_FILES, value >= HAS_FILES

    def check(self) -> None:
        """Raises DerivedStateWrong unless all were read."""
        if next(self._values, None) is not None:
            raise DerivedStateWrong("the checkpoint has other indexes than its subjects'")


def _lines(state: bytes) -> tuple[dict[str, Any], list[Any], bytes]:
    """The head and lines of a checkpoint's state, decoded, and what is behind them. Raises ValueError, LookupError, TypeError."""
    head = json.loads(state.partition(b"\n")[0])
    if head["format"] != CHECKPOINT_FORMAT:
        raise DerivedStateWrong(f"checkpoint of format {head['format']}")
    count = min(as_number(head["subjects"]), len(state))
    _, *lines = state.split(b"\n", count + 1)
    if len(lines) != count + 1:
        raise DerivedStateWrong(f"checkpoint of {count} subjects with {len(lines) - 1} lines")
    rest = lines.pop()
    return head, list(map(json.loads, lines)), rest


def restore_state(store: MessageStore, state: bytes) -> LogMemory:
    """Fill an empty store from a checkpoint; what it remembers of the log.

    Raises:
        DerivedStateWrong: the state can't be read, or an index lacks entries that it counts on.
    """
    try:
        head, lines, rest = _lines(state)
        if head.get("is_copied"):
            raise DerivedStateWrong("the checkpoint is another member's")
        store.sequence_floor = as_number(head["sequence_floor"])
        store.segment_newest_ms = {as_number(base, -1): as_number(at_ms) for base, at_ms in head["segment_newest_ms"]}
        places = _Places(rest, sum(1 + len(line["groups"]) for line in lines))
        indexes = [index for line in lines for index in _restore_subject(store, line, places)]
        places.check()
        by_number = {index.number: index.index for index in indexes if index.number}
        store.tails.load(TailsPosition.decode(head["tails"]), by_number)
        for index in indexes:
            _fit(index)
        for subject in store.subjects.values():
            subject.next_sequence = subject.visible_end
        store.replayed_end = as_number(head["records_end"])
        return replace(LogMemory.decode(head), records_end=store.replayed_end)
    except TailsWrong as error:
        raise DerivedStateWrong(str(error)) from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DerivedStateWrong(f"the checkpoint's state can't be read: {error}") from error


def state_of_copy(checkpoint: Checkpoint) -> tuple[list[bytes], int]:
    """Return the state of another member's checkpoint as this node saves it, so that its derived files are made from the log, and
    the log offset up to which it may hold records. Raises DerivedStateWrong."""
    head_bytes, _, rest = checkpoint.state.partition(b"\n")
    try:
        head = json.loads(head_bytes)
        records_end = as_number(head["records_end"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DerivedStateWrong(f"the checkpoint of the master can't be read: {error}") from error
    return [json.dumps({**head, "is_copied": True}).encode() + b"\n", rest], records_end


def restore_known(store: MessageStore, state: bytes, offset: int) -> KnownState | None:
    """Fill an empty store with what the log does not hold any more, before all derived files are made again.

    Args:
        offset: where the checkpoint stands.

    Returns:
        What the replay has to respect; None if the state can't be read, which is logged: the log alone counts then.
    """
    try:
        head, lines, _ = _lines(state)
        return KnownState.restore(store, head, lines, offset)
    except (DerivedStateWrong, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        logger.error("the checkpoint can't be read, so positions whose records have left the log are lost: %s", error)
        return None


def _restore_subject(store: MessageStore, state: dict[str, Any], places: _Places) -> list[_Index]:
    """Make a subject, of which the entries behind the files of its indexes are still to be added."""
    name, begin, end = as_text(state["subject"]), as_number(state["begin"]), as_number(state["end"])
    if begin > end:
        raise ValueError(f"subject {name} begins at {begin} and ends at {end}")
    found: list[_Index] = []

    def opened(index: DenseIndex, place: tuple[int, bool], begin: int | None, end: int, what: str) -> DenseIndex:
        number, has_files = place
        if number and has_files and not index.firsts:
            raise DerivedStateWrong(f"the {what} has no files")
        found.append(_Index(index, begin, end, what, number))
        return index

    def open_history(subject_name: str, group: str, end: int) -> DenseIndex:
        place = places.next()
        history = store.open_history(subject_name, group, None if end and place[1] else 0)
        return opened(history, place, None, end, f"progress log of {group} on {subject_name}")

    number, has_files = place = places.next()
    consume_log = store.open_index(name, 0 if number and not has_files else None)
    opened(consume_log, place, begin, end, f"consume log of {name}")
    subject = store.add_subject(name, consume_log, as_number(state.get("origin", 0)))
    subject.withheld = [(as_number(low), as_number(high)) for low, high in state.get("withheld", [])]
    restore_groups(subject, state["groups"], open_history, store.clock.monotonic())
    return found


def _fit(found: _Index) -> None:
    """Let an index hold what the checkpoint counted; entries written after it are replayed."""
    index, end, what = found.index, found.end, found.what
    begin = index.begin if found.begin is None else found.begin
    if begin == end and not found.number:
        # It counts on no entry. There may be files of entries that are gone, or of a subject of that name that was removed.
        index.start_at(begin)
    if index.begin > begin or index.end < end:
        raise DerivedStateWrong(
            f"the {what} holds [{index.begin}, {index.end}), the checkpoint counts on [{begin}, {end})"
        )
    index.truncate(end)
    index.hide_before(begin)
