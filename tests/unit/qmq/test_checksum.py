"""Checksums are those of zlib, whatever computes them."""

import importlib
import sys
import zlib

import pytest

from qmq import checksum


@pytest.fixture
def without_isal(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setitem(sys.modules, "isal.isal_zlib", None)
    yield importlib.reload(checksum)
    monkeypatch.undo()
    importlib.reload(checksum)


@pytest.mark.parametrize("size", [0, 1, 13, 64, 65, 1_000, 100_000])
def test_a_checksum_is_that_of_zlib(size: int) -> None:
    data = bytes(n * 7 % 256 for n in range(size))
    assert checksum.crc32(data) == zlib.crc32(data)
    assert checksum.crc32(data, 12345) == checksum.crc32(memoryview(data), 12345) == zlib.crc32(data, 12345)


def test_without_isal_zlib_computes_them(without_isal: object) -> None:
    assert checksum.crc32 is zlib.crc32
