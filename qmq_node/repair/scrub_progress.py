"""class ScrubProgress: how far a member has read its stored data again; lasts over restarts."""

import json
import logging
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from qmq_node.log.atomic_file import CheckedFile

FILE_NAME = "scrub"
FILE_BYTES_MAX = 4 << 10

logger = logging.getLogger("qmq_node.repair")


@dataclass(frozen=True, slots=True)
class ScrubProgress:
    """Times in milliseconds of the wall clock."""

    began_at_ms: int
    """When this pass began."""
    ended_at_ms: int | None = None
    """When the last whole pass ended; None: none did."""
    next_keys: dict[str, int] = field(default_factory=dict)
    """By kind of data, the key from which on it is not read yet: a log offset, or an hour. Data of a kind that is not here was not
    begun."""

    def key(self, kind: str) -> int:
        """Return the key from which on data of a kind is to be read."""
        return self.next_keys.get(kind, 0)

    def behind(self, kind: str, key: int) -> "ScrubProgress":
        """Return the progress when data with this key was read."""
        return replace(self, next_keys={**self.next_keys, kind: key + 1})


class ScrubProgressFile:
    """The file `scrub` in the data folder. A crash leaves the old content or the new one; both name data that was not read again
    since, so at most some of it is read twice."""

    def __init__(self, file: CheckedFile) -> None:
        self._file = file

    def load(self) -> ScrubProgress | None:
        """Return what was saved; None: nothing, or it can't be read, so a pass begins. From a thread that may wait for the disk."""
        try:
            data = self._file.load()
            return None if data is None else _decode(json.loads(data))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            logger.warning(
                "reading stored data again begins at the first byte: %s can't be used: %s", self._file.path, error
            )
            return None

    def save(self, progress: ScrubProgress) -> None:
        """Make it durable. Raises OSError."""
        self._file.save(json.dumps(asdict(progress)).encode())


def _decode(found: dict[str, Any]) -> ScrubProgress:
    ended = found["ended_at_ms"]
    keys = {str(kind): _whole(key) for kind, key in found["next_keys"].items()}
    return ScrubProgress(_whole(found["began_at_ms"]), None if ended is None else _whole(ended), keys)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no whole number")
    return value
