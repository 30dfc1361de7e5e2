"""Zstandard with bounded decompression: `compression.zstd` of Python 3.14, or the package zstandard."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from qmq.errors import SettingError

LEVEL = 3
"""Compression level: the default of Zstandard."""
MISSING = "compression needs Python 3.14 or the package zstandard. Install it with: pip install 'pyqmq[zstd]'"


class ZstdInvalid(Exception):
    """The bytes are not a complete Zstandard frame."""


class ZstdTooLarge(Exception):
    """The content is larger than the limit."""


class ZstdMissing(Exception):
    """No library is installed."""


class _Codec(NamedTuple):
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes, int], bytes]


def require_zstd() -> None:
    """Check that a library for compression is installed.

    Raises:
        SettingError: none is; the message names the extra to install.
    """
    try:
        _codec()
    except ZstdMissing as error:
        raise SettingError(f"compress_above: {MISSING}", code="body.codec_missing") from error


def compress(data: bytes) -> bytes:
    """Return one frame, which states the size of its content.

    Raises:
        ZstdMissing: no library is installed.
    """
    return _codec().compress(data)


def decompress(data: bytes, size_max: int) -> bytes:
    """Return the content of a frame.

    Args:
        size_max: most bytes of content, and of memory for the window, that the frame may need.

    Raises:
        ZstdInvalid, ZstdTooLarge, ZstdMissing: it can't be decompressed.
    """
    return _codec().decompress(data, size_max)


def _codec() -> _Codec:
    # Not cached: the import system has its own cache, and an installed library works without a restart.
    for name, make in (("compression.zstd", _standard), ("zstandard", _package)):
        try:
            module = sys.modules.get(name) or import_module(name)
        except ImportError:
            continue
        return make(module)
    raise ZstdMissing(MISSING)


def _standard(zstd: Any) -> _Codec:
    """The codec of `compression.zstd`."""

    def compress_(data: bytes) -> bytes:
        found: bytes = zstd.compress(data, LEVEL)
        return found

    def decompress_(data: bytes, size_max: int) -> bytes:
        options = {zstd.DecompressionParameter.window_log_max: (size_max - 1).bit_length()}
        try:
            reader = zstd.ZstdDecompressor(options=options)
            content: bytes = reader.decompress(data, max_length=size_max + 1)
        except zstd.ZstdError as error:
            raise ZstdInvalid(str(error)) from error
        if len(content) > size_max:
            raise ZstdTooLarge
        if not reader.eof or reader.unused_data:
            raise ZstdInvalid("the frame is incomplete" if not reader.eof else "there are bytes after the frame")
        return content

    return _Codec(compress_, decompress_)


def _package(zstandard: Any) -> _Codec:
    """The codec of the package zstandard."""

    def compress_(data: bytes) -> bytes:
        found: bytes = zstandard.ZstdCompressor(level=LEVEL).compress(data)
        return found

    def decompress_(data: bytes, size_max: int) -> bytes:
        try:
            # The package ignores max_output_size if the frame states a size.
            if zstandard.frame_content_size(data) > size_max:
                raise ZstdTooLarge
            window = 1 << (size_max - 1).bit_length()
            reader = zstandard.ZstdDecompressor(max_window_size=window)
            content: bytes = reader.decompress(data, max_output_size=size_max, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise ZstdInvalid(str(error)) from error
        return content

    return _Codec(compress_, decompress_)
