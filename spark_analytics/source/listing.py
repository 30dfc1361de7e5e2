"""What nodes said that they hold, asked once for several streams: handed on in a file of the run's own folder."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qmq.errors import QmqError, SettingError
from qmq.protocol.bulk_read import UNBOUNDED_MS, NodeLine, NodesPage, RangesPage, SubjectRange
from spark_analytics.source.node_reader import ATTEMPTS_MAX, NodeReader

_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Listing:
    """What a broker group's node holds. All that happened on it before `read_at_ms` (its clock) is in there.

    A subject whose groups fill several pages is there several times, with a part of its groups each.
    """

    node: NodeLine
    read_at_ms: int
    log_id: str
    subjects: tuple[SubjectRange, ...]


def list_ranges(
    node: NodeLine, token: str, *, from_ms: int = UNBOUNDED_MS, attempts_max: int = ATTEMPTS_MAX
) -> Listing:
    """Ask a node what it holds.

    Raises:
        QmqError: it can't be reached, or refuses.
    """
    subjects: list[SubjectRange] = []
    read_at_ms, log_id = -1, ""
    with NodeReader(node.address, token=token, attempts_max=attempts_max) as reader:
        for page in reader.range_pages(from_ms, UNBOUNDED_MS):
            # The first page's time: what happened while later ones were made may lie behind it.
            if read_at_ms < 0:
                read_at_ms, log_id = page.read_at_ms, page.log_id
            subjects += page.subjects
    return Listing(node, read_at_ms, log_id, tuple(subjects))


def write_listings(path: Path, listings: Sequence[Listing]) -> None:
    """Write them for the streams of this run, as nodes send them: each part behind its length."""
    with open(path, "wb") as file:
        for one in listings:
            node = NodesPage(one.read_at_ms, (one.node,))
            ranges = RangesPage(
                one.node.broker_group, one.node.node_id, one.read_at_ms, one.subjects, log_id=one.log_id
            )
            for part in (node.encode(), ranges.encode()):
                file.write(_LENGTH.pack(len(part)))
                file.write(part)


def read_listings(path: str) -> tuple[Listing, ...]:
    """Raises SettingError: the file is not there, or is not as `write_listings` writes it."""
    found: list[Listing] = []
    try:
        content = Path(path).read_bytes()
        at = 0
        while at < len(content):
            node, at = _part(content, at)
            page, at = _part(content, at)
            ranges = RangesPage.decode(page)
            (line,) = NodesPage.decode(node).nodes
            found.append(Listing(line, ranges.read_at_ms, ranges.log_id, ranges.subjects))
    except (OSError, QmqError, ValueError, struct.error) as error:
        raise SettingError(f"option listings is {path[:200]!r}, which can't be read: {error}") from error
    return tuple(found)


def _part(content: bytes, at: int) -> tuple[bytes, int]:
    """The part at a place, and where the next one is. Raises struct.error, ValueError."""
    (length,) = _LENGTH.unpack_from(content, at)
    begin = at + _LENGTH.size
    if begin + length > len(content):
        raise ValueError("it ends early")
    return content[begin : begin + length], begin + length
