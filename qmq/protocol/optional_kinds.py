"""Fields behind the map that may be missing: because there is no value, or because the peer is of an older version."""

from typing import Any

from qmq.errors import ProtocolError
from qmq.protocol.kinds import Kind, Part
from qmq.protocol.primitives import Reader
from qmq.protocol.structures import Nested, Structure


class Maybe(Kind):
    """A structure or None."""

    least_bytes = 1

    def __init__(self, kind: type[Structure]) -> None:
        self.item = Nested(kind)
        self.label = f"i8 0, or i8 1 and {self.item.label}"

    def read(self, reader: Reader) -> Any:
        (flag,) = reader.bytes_(1)
        if flag > 1:
            raise ProtocolError(f"{flag}; must be 0 (none) or 1")
        return self.item.read(reader) if flag else None

    def write(self, parts: list[Part], value: Any) -> None:
        parts.append(b"\0" if value is None else b"\1")
        if value is not None:
            self.item.write(parts, value)


class Added(Kind):
    """A field that a later version added at the end of a body: `missing` when the body ends before it.

    Older versions ignore bytes behind the last field that they know. A structure inside another one can't have such fields,
    because its bytes are followed by other ones; it can only get new entries of its map.
    """

    least_bytes = 0

    def __init__(self, kind: Kind, missing: Any) -> None:
        self.kind = kind
        self._missing = missing
        self.label = f"{kind.label}; older versions end before it"

    def read(self, reader: Reader) -> Any:
        return self.kind.read(reader) if reader.remaining else self._missing

    def write(self, parts: list[Part], value: Any) -> None:
        self.kind.write(parts, value)
