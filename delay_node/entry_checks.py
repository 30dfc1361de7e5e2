"""Checks of bytes of an hour's files as they arrive from another member: entries of an index or a dispatch log, and messages."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from delay_node.schedule_log import INDEX, INDEX_BYTES, checks_of, is_whole
from qmq.protocol.replication import COMMITS_BYTES_MAX
from qmq_node.log.disk import File

ENTRY_BYTES_MAX = COMMITS_BYTES_MAX
"""Largest message: it was in one commit. An index entry that claims more is damaged, and its message is not checked."""
INDEX_ENTRIES = 65_536
"""Entries of an index that are read at a time."""


class Found(NamedTuple):
    """What the check of some bytes found."""

    end: int
    """Up to here, in bytes of the file, entries are whole or damaged; one that begins here is not here to its end."""
    bad: Sequence[tuple[int, int]] = ()
    """Where those of them are that fail their check, in order."""

    @property
    def damaged(self) -> int:
        """How many fail their check."""
        return len(self.bad)

    @property
    def first(self) -> int:
        """Where the first of these begins."""
        return self.bad[0][0]

    @property
    def last(self) -> int:
        """Where the last of these ends."""
        return self.bad[-1][1]


class Check(Protocol):
    """Checks a file from its begin on, or from an entry on."""

    def check(self, at: int, data: bytes) -> Found:
        """Check entries in `data`, which is at byte `at` of the file; again if other bytes came for the same place."""


class EntryCheck:
    """Checks entries of one size with a check word.

    Args:
        dtype: as in `delay_node.schedule_log`.
    """

    def __init__(self, dtype: "np.dtype[np.void]") -> None:
        self._dtype = dtype

    def check(self, at: int, data: bytes) -> Found:
        size = self._dtype.itemsize
        count = len(data) // size
        entries = np.frombuffer(data, dtype=self._dtype, count=count)
        bad = np.flatnonzero(entries["check"] != checks_of(entries))
        return Found(at + count * size, [(at + number * size, at + (number + 1) * size) for number in bad.tolist()])


class MessageCheck:
    """Checks messages against the CRC before each.

    Args:
        index: the hour's index, which is complete.
        count: entries of it.
        data_bytes: how many bytes of the data file count.
    """

    def __init__(self, index: File, count: int, data_bytes: int) -> None:
        self._index = index
        self._count = count
        self._data_bytes = data_bytes
        self._number = 0
        """Of the next index entry that is read."""
        self._places: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """Where messages begin and end that were not accepted yet, in their order."""
        self._ends = self._places

    def check(self, at: int, data: bytes) -> Found:
        end = at + len(data)
        self._read_index(at, end)
        places, ends = self._places, self._ends
        inside = int(np.searchsorted(ends, end, "right"))
        view = memoryview(data)
        bad = [
            (place, stop)
            for place, stop in zip(places[:inside].tolist(), ends[:inside].tolist(), strict=True)
            if not is_whole(view[place - at : stop - at])
        ]
        if inside < len(places):
            end = min(end, int(places[inside]))
        return Found(end, bad)

    def _read_index(self, at: int, end: int) -> None:
        """Know all messages from `at` on that begin before `end`."""
        self._drop_before(at)
        while self._number < self._count and not (len(self._places) and self._places[-1] >= end):
            stop = min(self._number + INDEX_ENTRIES, self._count)
            size = (stop - self._number) * INDEX_BYTES
            data = self._index.pread(size, self._number * INDEX_BYTES).ljust(size, b"\0")
            self._number = stop
            entries = np.frombuffer(data, dtype=INDEX)
            is_good = (entries["check"] == checks_of(entries)) & (entries["place"] < self._data_bytes)
            entries = entries[is_good & (entries["size"] <= ENTRY_BYTES_MAX)]
            places = np.concatenate((self._places, entries["place"].astype(np.int64)))
            ends = np.concatenate((self._ends, entries["place"].astype(np.int64) + entries["size"]))
            # No two messages have a byte in common.
            before = np.concatenate(([0], np.maximum.accumulate(ends)[:-1]))
            is_good = (places >= before) & (ends <= self._data_bytes)
            self._places, self._ends = places[is_good], ends[is_good]
            self._drop_before(at)

    def _drop_before(self, at: int) -> None:
        first = int(np.searchsorted(self._places, at))
        self._places, self._ends = self._places[first:], self._ends[first:]
