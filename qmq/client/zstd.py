"""Zstandard with bounded decompression: `compression.zstd` of Python 3.14, or the package zstandard."""

import threading
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from qmq.errors import BodyUndecodable, LocalProtocolError
from qmq.protocol.frames import MESSAGE_BYTES_MAX

LEVEL = 3
"""Compression level: the default of Zstandard."""
CONTENT_BYTES_MAX = MESSAGE_BYTES_MAX
"""Most bytes that a body may decompress to: as many as a message may have."""
MISSING = "compression needs Python 3.14 or the package zstandard. Install it with: pip install 'pyqmq[zstd]'"


class ZstdMissing(Exception):
    """No library is installed."""


class Codec(NamedTuple):
    """What compresses bodies: one of the two libraries."""

    compress: Callable[[bytes], bytes]
    """Returns one frame, which states the size of its content."""
    decompress: Callable[[bytes], bytes]
    """Returns the content of a frame of at most CONTENT_BYTES_MAX bytes. Raises BodyUndecodable."""


def require_zstd() -> None:
    """Raises LocalProtocolError, which names the extra to install, without a library for compression."""
    try:
        codec()
    except ZstdMissing as error:
        raise LocalProtocolError(f"compress_above: {MISSING}", code="body.codec_missing") from error


@lru_cache(maxsize=1)
def codec() -> Codec:
    """The library that is installed. Raises ZstdMissing."""
    for name, make in (("compression.zstd", _standard), ("zstandard", _package)):
        try:
            module = import_module(name)
        except ImportError:
            continue
        return make(module)
    raise ZstdMissing(MISSING)


def _standard(zstd: Any) -> Codec:
    def compress(data: bytes) -> bytes:
        found: bytes = zstd.compress(data, LEVEL)
        return found

    def decompress(data: bytes) -> bytes:
        options = {zstd.DecompressionParameter.window_log_max: (CONTENT_BYTES_MAX - 1).bit_length()}
        try:
            reader = zstd.ZstdDecompressor(options=options)
            content: bytes = reader.decompress(data, max_length=CONTENT_BYTES_MAX + 1)
        except zstd.ZstdError as error:
            raise _damaged(error) from error
        if len(content) > CONTENT_BYTES_MAX:
            raise _too_large()
        if not reader.eof or reader.unused_data:
            raise _damaged("the frame is incomplete" if not reader.eof else "there are bytes after the frame")
        return content

    return Codec(compress, decompress)


def _package(zstandard: Any) -> Codec:
    # Creating these takes longer than compressing a message of some kilobytes. They must not be shared between threads.
    contexts = threading.local()

    def compress(data: bytes) -> bytes:
        compressor = getattr(contexts, "compressor", None)
        if compressor is None:
            compressor = contexts.compressor = zstandard.ZstdCompressor(level=LEVEL)
        found: bytes = compressor.compress(data)
        return found

    def decompress(data: bytes) -> bytes:
        reader = getattr(contexts, "decompressor", None)
        if reader is None:
            reader = contexts.decompressor = zstandard.ZstdDecompressor(max_window_size=CONTENT_BYTES_MAX)
        try:
            # The package ignores max_output_size if the frame states a size.
            if zstandard.frame_content_size(data) > CONTENT_BYTES_MAX:
                raise _too_large()
            content: bytes = reader.decompress(data, max_output_size=CONTENT_BYTES_MAX, allow_extra_data=False)
        except zstandard.ZstdError as error:
            # The same error for a frame that is cut, and for one whose content is too large without saying so.
            raise _too_large() if exceeds_limit(reader, data) else _damaged(error) from error
        return content

    def exceeds_limit(reader: Any, data: bytes) -> bool:
        try:
            return len(reader.stream_reader(data).read(CONTENT_BYTES_MAX + 1)) > CONTENT_BYTES_MAX
        except zstandard.ZstdError:
            return False

    return Codec(compress, decompress)


def _damaged(why: object) -> BodyUndecodable:
    return BodyUndecodable(f"the body is damaged: {why}")


def _too_large() -> BodyUndecodable:
    return BodyUndecodable(f"the body decompresses to more than {CONTENT_BYTES_MAX} bytes", code="body.too_large")
