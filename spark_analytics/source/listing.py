"""What nodes said that they hold, asked once for several streams: handed on in a file of the run's own folder."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qmq.errors import SettingError
from qmq.protocol.bulk_read import UNBOUNDED_MS, NodeLine, SubjectRange
from spark_analytics.source.node_reader import ATTEMPTS_MAX, NodeReader


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
    """Write them for the streams of this run. The folder has to be one that nobody else writes to."""
    path.write_bytes(pickle.dumps(tuple(listings), pickle.HIGHEST_PROTOCOL))


def read_listings(path: str) -> tuple[Listing, ...]:
    """Raises SettingError: the file is not there, or none of ours."""
    try:
        found = pickle.loads(Path(path).read_bytes())
    except (OSError, pickle.UnpicklingError, EOFError, AttributeError) as error:
        raise SettingError(f"option listings is {path[:200]!r}, which can't be read: {error}") from error
    if not isinstance(found, tuple) or not all(isinstance(one, Listing) for one in found):
        raise SettingError(f"option listings is {path[:200]!r}, which holds no listings")
    return found
