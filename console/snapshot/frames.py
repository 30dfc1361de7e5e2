"""Deltas as compressed frames. No I/O."""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from console.snapshot.state import SECTIONS, Delta, Entry, encode

FRAME_ENTRIES_MAX = 500
"""Entries in one frame: encoding or parsing a frame holds the interpreter lock for a few milliseconds."""
FRAME_BYTES_MAX = 32 << 20
"""Of a decompressed frame."""
COMPRESSION_LEVEL = 1

_LENGTH = struct.Struct(">I")
# zlib's window for the raw format: no header and no checksum in each frame.
_WINDOW = -15


class SnapshotError(Exception):
    """The stored snapshot can't be read; the text says why."""


def slices(entries: Mapping[str, Entry]) -> Iterator[dict[str, Entry]]:
    """The entries in dicts of at most FRAME_ENTRIES_MAX."""
    items = iter(entries.items())
    while part := dict(islice(items, FRAME_ENTRIES_MAX)):
        yield part


def frames(change: Delta) -> bytes:
    """A delta as frames. What is gone comes first."""
    gone = {section: {"gone": parts["gone"], "set": {}} for section, parts in change.items() if parts["gone"]}
    found = [_frame(gone)] if gone else []
    for section, parts in change.items():
        found += [_frame({section: {"gone": [], "set": part}}) for part in slices(parts["set"])]
    return b"".join(found)


def _frame(change: Delta) -> bytes:
    packer = zlib.compressobj(COMPRESSION_LEVEL, zlib.DEFLATED, _WINDOW)
    body = packer.compress(encode(change).encode(errors="surrogatepass")) + packer.flush()
    return _LENGTH.pack(len(body)) + body


def deltas(data: bytes) -> Iterator[Delta]:
    """The deltas of whole frames.

    Raises:
        SnapshotError: these are no frames.
    """
    at = 0
    while at < len(data):
        begin = at + _LENGTH.size
        if begin > len(data):
            raise SnapshotError("a frame is cut off")
        at = begin + _LENGTH.unpack_from(data, at)[0]
        if at > len(data):
            raise SnapshotError("a frame is cut off")
        unpacker = zlib.decompressobj(_WINDOW)
        try:
            text = unpacker.decompress(data[begin:at], FRAME_BYTES_MAX)
            if not unpacker.eof:
                raise SnapshotError(f"a frame is incomplete or has more than {FRAME_BYTES_MAX} bytes")
            found = json.loads(text)
        except (zlib.error, ValueError) as error:
            raise SnapshotError(f"a frame can't be parsed: {error}") from error
        yield _untracked(_checked(found))


def _checked(found: Any) -> Delta:
    if not is_delta(found, SECTIONS):
        raise SnapshotError("a frame holds no delta")
    change: Delta = found
    return change


def _untracked(change: Delta) -> Delta:
    """A delta whose subjects have tuples, so that collections of garbage leave them out.

    A collection stops all requests of a process. Dicts and tuples without mutable containers are not examined; a list in each of
    100,000 subjects made a collection take 0.3 s.
    """
    for fields in change.get("subjects", {"set": {}})["set"].values():
        if isinstance(held_by := fields.get("broker_groups"), list):
            fields["broker_groups"] = tuple(held_by)
    return change


def is_delta(found: Any, sections: Iterable[str]) -> bool:
    """Whether this has the shape of a delta of these sections, so that applying it can't fail."""
    return isinstance(found, dict) and all(
        section in sections
        and isinstance(parts, dict)
        and isinstance(parts.get("gone"), list)
        and all(isinstance(key, str) for key in parts["gone"])
        and isinstance(parts.get("set"), dict)
        and all(isinstance(fields, dict) for fields in parts["set"].values())
        for section, parts in found.items()
    )


NO_ENTRIES = _frame({})
"""The base of a chunk without entries."""
