"""Structures that may be missing."""

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
