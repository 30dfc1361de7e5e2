"""Smaller PNG files: the same pixels with up to 256 colours, hardly different ones with more."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from tests.support.console.small_png import COLOURS, smaller

Pixels = NDArray[np.int64]
HEIGHT, WIDTH = 10, 40


def encoded(pixels: Pixels) -> bytes:
    """A PNG whose rows have all kinds of filters."""
    above = np.zeros((WIDTH, 3), int)
    rows = b""
    for number, row in enumerate(pixels):
        left, corner = (np.vstack((np.zeros((1, 3), int), line[:-1])) for line in (row, above))
        guess = left + above - corner
        near = np.stack((left, above, corner))
        nearest = np.take_along_axis(near, np.abs(near - guess).argmin(axis=0)[None], axis=0)[0]
        kind = number % 5
        filtered = (row - (0, left, above, (left + above) // 2, nearest)[kind]) % 256
        rows += bytes([kind]) + filtered.astype(np.uint8).tobytes()
        above = row
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def decoded(png: bytes) -> Pixels:
    """The pixels of a picture with a palette and rows without filters."""
    found, at = {}, 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        assert png[at + 8 + length : at + 12 + length] == struct.pack(">I", zlib.crc32(kind + body))
        found[kind] = body
        at += 12 + length
    assert struct.unpack(">IIBB", found[b"IHDR"][:10]) == (WIDTH, HEIGHT, 8, 3)
    palette = np.frombuffer(found[b"PLTE"], np.uint8).reshape(-1, 3).astype(int)
    rows = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(HEIGHT, 1 + WIDTH)
    assert not rows[:, 0].any()
    return palette[rows[:, 1:]]


def test_colours_that_differ_stay_as_they_are() -> None:
    random = np.random.default_rng(1)
    colours = np.array([(r, g, b) for r in range(0, 256, 51) for g in range(0, 256, 51) for b in range(0, 256, 51)])
    pixels = colours[random.integers(0, len(colours), (HEIGHT, WIDTH))]
    assert np.array_equal(decoded(smaller(encoded(pixels))), pixels)


def test_of_more_colours_than_a_palette_has_each_gets_one_that_is_near() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (HEIGHT, WIDTH, 3))
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > COLOURS
    found = decoded(smaller(encoded(pixels)))
    assert len(np.unique(found.reshape(-1, 3), axis=0)) <= COLOURS
    assert np.abs(found - pixels).sum(axis=2).max() < 3 * 24
