"""Raw messages to Arrow columns, all messages of a page at once: field by field in lock-step, no Python for each message.

The format is in `qmq.protocol.messages`. Places are bytes from the begin of the page. What is read is what `decode_raw` reads:
text that is not UTF-8 with replacement characters, of two properties with one key the last. On top of it a large text, which
lies in pieces under `key#part0`, `key#part1`, ..., becomes one property `key`.
"""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qmq.errors import ProtocolError
from qmq.protocol.messages import get_large_string
from qmq.protocol.raw import CREATED_AT, FLAG_TAGS, SUBJECT_AT, PropertyPlace, property_places

LOCKSTEP_FIELDS_MAX = 512
"""Properties that are read in lock-step; the few messages with more are walked one by one, as lock-step then gains nothing."""

_BYTES_MIN = SUBJECT_AT + 2 + 2 + 4
_PART = re.compile(r"^(.*)#part(\d+)$", re.DOTALL)
_PART_ARROW = "#part[0-9]+$"

Places = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Texts:
    """Texts of messages, in the order of their places: text i is [begins[i], ends[i]) of message `rows[i]`."""

    rows: Places
    begins: Places
    ends: Places

    def of(self, is_kept: Flags) -> "_Texts":
        kept = is_kept[self.rows]
        return _Texts(self.rows[kept], self.begins[kept], self.ends[kept])


class RawMessages:
    """The messages of a page: message i is `sizes[i]` bytes from `begins[i]` on; a size of 0 is a withheld one.

    Begins rise. Every column has a value for each message; `is_damaged` says which of them are no messages, as far as the columns
    requested so far had to look. Their values, and those of withheld ones, are null.
    """

    def __init__(self, data: bytes | memoryview, begins: Places, sizes: Places) -> None:
        self._octets = np.frombuffer(data, dtype=np.uint8)
        self._buffer = pa.py_buffer(data)
        self._count = len(begins)
        self._begins = begins
        self._ends = begins + sizes
        self.is_withheld: Flags = sizes == 0
        self.is_damaged: Flags = ~self.is_withheld & ((sizes < _BYTES_MIN) | (self._ends > len(self._octets)))

    def __len__(self) -> int:
        return self._count

    # --- columns ----------------------------------------------------------------------------------------------------

    @cached_property
    def created_at_ms(self) -> NDArray[np.int64]:
        """The producer's clock; 0 where there is no message."""
        created = np.zeros(self._count, dtype=np.int64)
        rows = self._rows()
        eights = self._octets[(self._begins[rows] + CREATED_AT)[:, None] + np.arange(8)]
        created[rows] = eights.view(">i8").reshape(-1)
        return created

    @cached_property
    def subject(self) -> pa.StringArray:
        """The subject that the message itself names: that of its first attempt, where the broker moved it."""
        return self._column(self._subjects)

    @cached_property
    def message_id(self) -> pa.StringArray:
        return self._column(self._ids)

    @cached_property
    def tags(self) -> pa.ListArray:
        found = self._tags[0].of(self._is_good)
        return pa.ListArray.from_arrays(
            pa.array(_offsets(found.rows, self._count), pa.int32()),
            self._strings(found.begins, found.ends),
            mask=pa.array(~self._is_good),
        )

    @cached_property
    def properties(self) -> pa.MapArray:
        """Map of text to text."""
        pairs = self._pairs
        keep = self._is_good[pairs.rows]
        keys, values, rows = _join_large(pairs.keys, pairs.values, pairs.rows, pairs.is_part & keep, keep)
        return pa.MapArray.from_arrays(
            pa.array(_offsets(rows, self._count), pa.int32()), keys, values, mask=pa.array(~self._is_good)
        )

    def property_text(self, key: str) -> pa.StringArray:
        """One property; null where there is none."""
        pairs = self._pairs
        code = pairs.names.index(key).as_py()
        found = np.flatnonzero((pairs.codes == code) & self._is_good[pairs.rows])
        at = np.full(self._count, -1, dtype=np.int64)
        at[pairs.rows[found]] = found
        return pairs.values.take(pa.array(at, mask=at < 0))

    # --- walking ----------------------------------------------------------------------------------------------------

    @property
    def _is_good(self) -> Flags:
        return ~(self.is_withheld | self.is_damaged)

    def _rows(self) -> Places:
        return np.flatnonzero(self._is_good)

    def _u16(self, at: Places) -> Places:
        """Two bytes; of a place beyond the page, anything: the caller compares the text's end with its message's."""
        high: Places = self._octets.take(at, mode="clip").astype(np.int64)
        return (high << 8) | self._octets.take(at + 1, mode="clip")

    def _text(self, rows: Places, at: Places, ends: Places) -> tuple[_Texts, Flags]:
        """The texts at these places, and which of them end inside their messages."""
        begins = at + 2
        after = begins + self._u16(at)
        fits = after <= ends
        return _Texts(rows, begins, after), fits

    def _damage(self, rows: Places, is_fine: Flags) -> None:
        self.is_damaged[rows[~is_fine]] = True

    @cached_property
    def _subjects(self) -> _Texts:
        rows = self._rows()
        texts, fits = self._text(rows, self._begins[rows] + SUBJECT_AT, self._ends[rows])
        self._damage(rows, fits)
        return texts

    @cached_property
    def _ids(self) -> _Texts:
        subjects = self._subjects.of(self._is_good)
        texts, fits = self._text(subjects.rows, subjects.ends, self._ends[subjects.rows])
        self._damage(subjects.rows, fits)
        return texts

    @cached_property
    def _tags(self) -> tuple[_Texts, Places]:
        """The tags, and for each message the place behind them."""
        ids = self._ids.of(self._is_good)
        at = np.zeros(self._count, dtype=np.int64)
        at[ids.rows] = ids.ends
        left = np.zeros(self._count, dtype=np.int64)
        has = ids.rows[(self._octets[self._begins[ids.rows]] & FLAG_TAGS) != 0]
        left[has] = self._octets.take(at[has], mode="clip")
        self._damage(has, at[has] < self._ends[has])
        at[has] += 1
        found: list[_Texts] = []
        rows = has[(left[has] > 0) & self._is_good[has]]
        while len(rows):
            texts, fits = self._text(rows, at[rows], self._ends[rows])
            self._damage(rows, fits)
            found.append(texts)
            at[rows] = texts.ends
            left[rows] -= 1
            rows = rows[fits & (left[rows] > 0)]
        return _in_order(found), at

    @cached_property
    def _pairs(self) -> "_Pairs":
        _, at = self._tags
        rows = self._rows()
        begins = at[rows] + 4
        self._damage(rows, begins <= self._ends[rows])
        size_at = at[rows]
        sizes = ((self._u16(size_at) << 16) | self._u16(size_at + 2)).astype(np.uint32).view(np.int32)
        self._damage(rows, begins + sizes == self._ends[rows])
        at[rows] = begins
        keys: list[_Texts] = []
        values: list[_Texts] = []
        rows = rows[self._is_good[rows] & (sizes > 0)]
        while len(rows) and len(keys) < LOCKSTEP_FIELDS_MAX:
            ends = self._ends[rows]
            key, key_fits = self._text(rows, at[rows], ends)
            value, value_fits = self._text(rows, key.ends, ends)
            fits = key_fits & value_fits
            self._damage(rows, fits)
            keys.append(key)
            values.append(value)
            at[rows] = value.ends
            rows = rows[fits & (value.ends < ends)]
        for row in rows.tolist():
            one_key, one_value = self._walk(row, int(at[row]))
            keys.append(one_key)
            values.append(one_value)
        key, value = _in_order(keys).of(self._is_good), _in_order(values).of(self._is_good)
        return _Pairs.of(key.rows, self._strings(key.begins, key.ends), self._strings(value.begins, value.ends))

    def _walk(self, row: int, at: int) -> tuple[_Texts, _Texts]:
        """The rest of one message's properties."""
        places: list[PropertyPlace] = []
        try:
            places += property_places(self._octets.data, at, int(self._ends[row]))
        except ProtocolError:
            self.is_damaged[row] = True
        table = np.array(places, dtype=np.int64).reshape(-1, 4)
        rows = np.full(len(table), row, dtype=np.int64)
        return _Texts(rows, table[:, 0], table[:, 1]), _Texts(rows, table[:, 2], table[:, 3])

    # --- to Arrow ---------------------------------------------------------------------------------------------------

    def _column(self, texts: _Texts) -> pa.StringArray:
        """One text for each message."""
        texts = texts.of(self._is_good)
        if len(texts.rows) == self._count:
            return self._strings(texts.begins, texts.ends)
        at = np.full(self._count, -1, dtype=np.int64)
        at[texts.rows] = np.arange(len(texts.rows))
        return self._strings(texts.begins, texts.ends).take(pa.array(at, mask=at < 0))

    def _strings(self, begins: Places, ends: Places) -> pa.StringArray:
        """Texts at places of the page that rise and don't overlap.

        The page itself is treated as an array of texts and what lies between them by turns; every other one is kept.
        """
        count = len(begins)
        if not count:
            return pa.array([], pa.string())
        offsets = np.empty(2 * count, dtype=np.int32)
        offsets[0::2], offsets[1::2] = begins, ends
        alternating = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), self._buffer])
        found = alternating.take(pa.array(np.arange(0, 2 * count - 1, 2)))
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            # Some text is not UTF-8: such pages are rare, and Python knows best how to read them.
            return pa.array([str(text, "utf-8", "replace") for text in found.to_pylist()], pa.string())


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Properties of messages: `codes` say which of the different `names` each key is. No message has a key twice."""

    rows: Places
    keys: pa.StringArray
    values: pa.StringArray
    codes: Places
    names: pa.StringArray

    @classmethod
    def of(cls, rows: Places, keys: pa.StringArray, values: pa.StringArray) -> "_Pairs":
        encoded = keys.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        names = encoded.dictionary
        places = rows * max(1, len(names)) + codes
        _, last = np.unique(places[::-1], return_index=True)
        if len(last) < len(places):
            kept = np.sort(len(places) - 1 - last)
            chosen = pa.array(kept)
            return cls(rows[kept], keys.take(chosen), values.take(chosen), codes[kept], names)
        return cls(rows, keys, values, codes, names)

    @property
    def is_part(self) -> Flags:
        """Which of them may be pieces of large texts."""
        is_part = pc.match_substring_regex(self.names, _PART_ARROW).to_numpy(zero_copy_only=False).astype(np.bool_)
        found: Flags = is_part[self.codes] if len(self.names) else np.zeros(0, dtype=np.bool_)
        return found


def _in_order(found: list[_Texts]) -> _Texts:
    """The texts of all rounds in the order of their places, which is that of their messages."""
    if not found:
        nothing = np.zeros(0, dtype=np.int64)
        return _Texts(nothing, nothing, nothing)
    if len(found) == 1:
        return found[0]
    begins = np.concatenate([texts.begins for texts in found])
    order = np.argsort(begins, kind="stable")
    return _Texts(
        np.concatenate([texts.rows for texts in found])[order],
        begins[order],
        np.concatenate([texts.ends for texts in found])[order],
    )


def _offsets(rows: Places, count: int) -> NDArray[np.int32]:
    """Where each message's items begin, for items in the order of their messages."""
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return offsets


def _join_large(
    keys: pa.StringArray, values: pa.StringArray, rows: Places, is_part: Flags, keep: Flags
) -> tuple[pa.StringArray, pa.StringArray, Places]:
    """The pairs to keep, with the pieces of large texts joined: message by message, but only those that have pieces."""
    if not is_part.any():
        if keep.all():
            return keys, values, rows
        chosen = pa.array(keep)
        return keys.filter(chosen), values.filter(chosen), rows[keep]
    large_rows = np.unique(rows[is_part])
    is_large = keep & np.isin(rows, large_rows)
    places = np.flatnonzero(is_large)
    of_rows: dict[int, dict[str, str]] = {}
    chosen = pa.array(places)
    for row, key, value in zip(
        rows[places].tolist(), keys.take(chosen).to_pylist(), values.take(chosen).to_pylist(), strict=True
    ):
        of_rows.setdefault(row, {})[key] = value
    joined = [(row, *pair) for row, properties in of_rows.items() for pair in join_large(properties).items()]
    plain = keep & ~is_large
    all_rows = np.concatenate([rows[plain], np.array([row for row, _, _ in joined], dtype=np.int64)])
    order = np.argsort(all_rows, kind="stable")
    kept, ordered = pa.array(plain), pa.array(order)
    all_keys = pa.concat_arrays([keys.filter(kept), pa.array([key for _, key, _ in joined], pa.string())])
    all_values = pa.concat_arrays([values.filter(kept), pa.array([value for _, _, value in joined], pa.string())])
    return all_keys.take(ordered), all_values.take(ordered), all_rows[order]


def join_large(properties: dict[str, str]) -> dict[str, str]:
    """Properties with the pieces of each large text joined under its own key, as `get_large_string` gives it.

    Where the key is there by itself it wins, and the pieces stay what they are; so do pieces without a first one.
    """
    joined = dict(properties)
    for name in [match[1] for match in map(_PART.match, properties) if match and match[2] == "0"]:
        if name in properties:
            continue
        text = get_large_string(properties, name)
        if text is None:
            continue
        joined[name] = text
        number = 0
        while joined.pop(f"{name}#part{number}", None) is not None:
            number += 1
    return joined
