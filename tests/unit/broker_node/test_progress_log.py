"""A group's history says exactly which messages were handed out, whatever filters left out."""

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from broker_node.storage.actions import Ack, Action, Offline, Pull, RecordKind, Settle, Start, runs_of
from broker_node.storage.progress_log import (
    LAYOUT,
    LAYOUT_AT,
    PROGRESS_ENTRY,
    PROGRESS_ENTRY_BYTES,
    consumer_key,
    encode_progress,
)

HEAD = ("orders", "g", "c1", 1_700_000_000_000)


def entries(action: Action, position: int = 0) -> list[tuple[int, ...]]:
    """An action's entries: (kind, begin, end, next sequence); what all have in common is checked here."""
    data = encode_progress(action, position)
    found = []
    for at in range(0, len(data), PROGRESS_ENTRY_BYTES):
        at_ms, key, begin, end, next_sequence, kind, check = PROGRESS_ENTRY.unpack_from(data, at)
        assert (at_ms, key, data[at + LAYOUT_AT]) == (HEAD[3], consumer_key("c1"), LAYOUT)
        assert check == crc32(data[at : at + PROGRESS_ENTRY_BYTES - 4])
        found.append((kind, begin, end, next_sequence))
    return found


def handed_out(rows: list[tuple[int, ...]]) -> dict[int, int]:
    """Pull sequence -> consume sequence, as the module's docstring says how to read entries."""
    return {
        pull: next_sequence - (end - pull)
        for kind, begin, end, next_sequence in rows
        if kind == RecordKind.PULL
        for pull in range(begin, end)
    }


@given(st.sets(st.integers(0, 60)), st.integers(0, 5), st.integers(0, 1000))
def test_each_message_of_a_pull_can_be_told(sequences: set[int], further: int, pull_begin: int) -> None:
    picked = sorted(sequences)
    position = (picked[-1] + 1 if picked else 0) + further
    pull = Pull(*HEAD, False, pull_begin, 0, position, runs_of(picked))
    rows = entries(pull)
    assert handed_out(rows) == dict(enumerate(picked, pull_begin))
    assert rows[-1][3] == position, "the last entry tells where the group goes on"
    assert [row[3] for row in rows] == sorted({row[3] for row in rows}), "the position only moves on"
    assert len(rows) == len(pull.runs) + (1 if further or not picked else 0)


@given(st.integers(0, 100), st.integers(1, 50), st.integers(0, 5))
def test_a_broadcast_reads_the_same_way(begin: int, count: int, further: int) -> None:
    picked = list(range(begin, begin + count))
    rows = entries(Pull(*HEAD, True, begin, 0, begin + count + further, runs_of(picked)))
    assert handed_out(rows) == {sequence: sequence for sequence in picked}


def test_the_others_are_one_entry_each() -> None:
    assert entries(Ack(*HEAD, False, 3, 9), 40) == [(3, 3, 9, 40)]
    assert entries(Settle(*HEAD, False, 3, 9), 40) == [(7, 3, 9, 40)]
    assert entries(Offline(*HEAD, False), 40) == [(4, 0, 0, 40)]
    assert entries(Start(*HEAD, False, 40, 0), 40) == [(5, 0, 0, 40)]
