"""Smaller PNG files of screenshots: at most 256 colours, which those of a page hardly differ from."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

COLOURS = 256
DISTANCE = 6
"""Colours that differ less, per channel on average, share an entry of the palette; doubled until the palette suffices."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB, _PALETTE = 2, 3

Pixels = NDArray[np.uint8]


def smaller(png: bytes) -> bytes:
    """The same picture with a palette.

    Args:
        png: as Chromium writes it: 8 bits per channel, without transparency.
    """
    pixels = _pixels(png)
    height, width, _ = pixels.shape
    colours, places, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette, chosen = _palette(colours.astype(np.int32), counts)
    rows = chosen[places.reshape(-1)].reshape(height, width)
    # Rows without a filter: equal letters are equal bytes.
    data = zlib.compress(np.pad(rows, ((0, 0), (1, 0))).tobytes(), 9)
    head = struct.pack(">IIBBBBB", width, height, 8, _PALETTE, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", data), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _palette(colours: NDArray[np.int32], counts: NDArray[np.int64]) -> tuple[NDArray[np.int32], Pixels]:
    """The most frequent colours that differ enough, and for each colour the nearest of them."""
    distance = DISTANCE
    while True:
        palette = np.empty((0, 3), np.int32)
        for colour in colours[np.argsort(-counts, kind="stable")]:
            if not len(palette) or np.abs(palette - colour).sum(axis=1).min() >= 3 * distance:
                palette = np.vstack((palette, colour))
            if len(palette) > COLOURS:
                break
        else:
            nearest = [np.abs(palette - colour).sum(axis=1).argmin() for colour in colours]
            return palette, np.array(nearest, np.uint8)
        distance *= 2


def _pixels(png: bytes) -> Pixels:
    at, data, shape = len(_SIGNATURE), b"", (0, 0)
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour_type = struct.unpack(">IIBB", body[:10])
            assert (depth, colour_type) == (8, _RGB), "this is no screenshot of Chromium"
            shape = (height, width)
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    return _unfiltered(zlib.decompress(data), *shape)


def _unfiltered(data: bytes, height: int, width: int) -> Pixels:
    """Undo the filters of PNG's rows (0 to 4: none, left, above, average, Paeth)."""
    size = 3 * width
    lines = np.frombuffer(data, np.uint8).reshape(height, 1 + size)
    above = [0] * size
    rows = []
    for line in lines:
        kind, row = int(line[0]), line[1:].tolist()
        for i in range(size) if kind else ():
            left, corner = (row[i - 3], above[i - 3]) if i >= 3 else (0, 0)
            row[i] = (row[i] + (0, left, above[i], (left + above[i]) // 2, _paeth(left, above[i], corner))[kind]) % 256
        rows.append(row)
        above = row
    return np.array(rows, np.uint8).reshape(height, width, 3)


def _paeth(left: int, above: int, corner: int) -> int:
    """The one of three that is nearest to left + above - corner."""
    guess = left + above - corner
    return min((left, above, corner), key=lambda value: abs(value - guess))
