"""Ranges of what nodes hold, cut into partitions of even size. Pure."""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

ROWS_PER_PARTITION = 500_000
"""Rows of a partition by default; of the tables that read messages, `ROWS_PER_PARTITION_OF_MESSAGES`."""
ROWS_PER_PARTITION_OF_MESSAGES = 50_000
PARTITIONS_MAX = 20_000
"""Above it partitions get larger than requested: Spark's driver holds each in memory."""
RANGES_PER_PARTITION_MAX = 2_000
"""Each range is a request of its own, however small it is."""


class Range(NamedTuple):
    """Rows [begin, end) on one node: of a subject, of a consumer group's history on it, or of an hour of a delay node.

    `consumers` are (key, consumer id), for a history; `hour` is hours since 1970, -1 where there is none;
    `began_at_ms` is the time of the first entry that is kept of a history, `base` what a stream adds to its numbers, and
    `sequence_base` what it adds to consume sequences; no sequence below `origin` belongs to the subject.
    """

    broker_group: str
    address: str
    subject: str
    begin: int
    end: int
    group: str = ""
    is_broadcast: bool = False
    consumers: tuple[tuple[int, str], ...] = ()
    hour: int = -1
    began_at_ms: int = -1
    base: int = 0
    sequence_base: int = 0
    origin: int = 0

    @property
    def rows(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A row of a stream, at this position of a group's history: the group was forgotten."""

    broker_group: str
    subject: str
    group: str
    position: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """A partition: ranges of one node that one task reads one after the other."""

    ranges: tuple[Range, ...]

    def __reduce__(
        self,
    ) -> tuple[Callable[[tuple[tuple[Any, ...], ...]], "Bundle"], tuple[tuple[tuple[Any, ...], ...]]]:
        """Pickle ranges as plain tuples: Spark's pickler has a call in Python for each object of another type."""
        return _bundle_of, (tuple(map(tuple, self.ranges)),)

    @property
    def address(self) -> str:
        return self.ranges[0].address


def _bundle_of(ranges: tuple[tuple[Any, ...], ...]) -> Bundle:
    return Bundle(tuple(map(Range._make, ranges)))


def plan(ranges: Iterable[Range], rows_per_partition: int) -> list[Bundle]:
    """Partitions of about `rows_per_partition` rows and never more than one above it, none of more than one node.

    A larger range is cut into equal pieces; what is smaller than a partition is packed with others of its node.
    """
    wanted = [one for one in ranges if one.rows > 0]
    rows = max(rows_per_partition, -(-sum(one.rows for one in wanted) // PARTITIONS_MAX), 1)
    bundles: list[Bundle] = []
    small: dict[str, list[Range]] = defaultdict(list)
    for one in wanted:
        count = one.end - one.begin
        if count < rows:
            small[one.address].append(one)
        else:
            bundles += [Bundle((piece,)) for piece in cut(one, -(-count // rows))]
    for of_node in small.values():
        bundles += _pack(of_node, rows)
    return bundles


def cut(whole: Range, pieces: int) -> list[Range]:
    """Pieces whose sizes differ by one at most."""
    size, longer = divmod(whole.rows, pieces)
    found, at = [], whole.begin
    for number in range(pieces):
        end = at + size + (number < longer)
        found.append(whole._replace(begin=at, end=end))
        at = end
    return found


def _pack(ranges: list[Range], rows: int) -> list[Bundle]:
    """Largest first, each into the emptiest of the bundles that it fits into, else into a new one."""
    total = sum(one.rows for one in ranges)
    start = max(1, -(-total // rows), -(-len(ranges) // RANGES_PER_PARTITION_MAX))
    packed: list[list[Range]] = [[] for _ in range(start)]
    emptiest = [(0, number) for number in range(start)]
    for one in sorted(ranges, key=lambda found: found.begin - found.end):
        held, number = emptiest[0]
        count = one.end - one.begin
        if held + count > rows or len(packed[number]) >= RANGES_PER_PARTITION_MAX:
            number = len(packed)
            packed.append([one])
            heapq.heappush(emptiest, (count, number))
        else:
            packed[number].append(one)
            heapq.heapreplace(emptiest, (held + count, number))
    return [
        Bundle(tuple(sorted(found, key=lambda one: (one.subject, one.group, one.hour, one.begin))))
        for found in packed
        if found
    ]
