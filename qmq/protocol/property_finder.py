"""One property of many raw messages: class PropertyFinder. Pure."""

from struct import Struct

from qmq.protocol.primitives import U16
from qmq.protocol.raw import SHAPE_FIELDS_MAX, SHAPES_MAX, property_places


class PropertyFinder:
    """Finds one property, by its key in UTF-8, in many messages; fast where the properties before it have the same lengths."""

    __slots__ = ("_key", "_known", "_last", "_shapes", "_stored_key")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._stored_key = U16.pack(len(key)) + key
        self._known: tuple[Struct, tuple[object, ...]] | None = None
        self._last: tuple[object, ...] = ()
        self._shapes = 0

    def place(self, data: bytes | bytearray, begin: int, end: int) -> tuple[int, int] | None:
        """Begin and end of the value in the properties data[begin:end]; None without the key. Raises ProtocolError."""
        known = self._known
        if known is not None:
            layout, expected = known
            value_begin = begin + layout.size
            if value_begin <= end:
                found = layout.unpack_from(data, begin)
                if found[:-1] == expected:
                    value_end: int = value_begin + found[-1]
                    if value_end == end or (value_end < end and data.find(self._stored_key, value_end, end) < 0):
                        return value_begin, value_end
        if data.find(self._stored_key, begin, end) < 0:
            return None
        return self._search(data, begin, end)

    def _search(self, data: bytes | bytearray, begin: int, end: int) -> tuple[int, int] | None:
        place = None
        lengths: list[int] = []
        before: tuple[int, ...] = ()
        for key_begin, key_end, value_begin, value_end in property_places(data, begin, end):
            if data[key_begin:key_end] == self._key:
                place = value_begin, value_end
                before = tuple(lengths)
            lengths += (key_end - key_begin, value_end - value_begin)
        if place is not None and self._shapes < SHAPES_MAX and len(before) <= SHAPE_FIELDS_MAX:
            self._shapes += 1
            self._learn(before)
        return place

    def _learn(self, before: tuple[int, ...]) -> None:
        expected = (*before, len(self._key), self._key)
        if expected == self._last:
            form = "".join(f"H{length}x" for length in before)
            self._known = Struct(f">{form}H{len(self._key)}sH"), expected
        self._last = expected
