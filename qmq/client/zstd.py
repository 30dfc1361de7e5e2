"""Compression with Zstandard."""

import threading

from qmq.errors import LocalProtocolError
from qmq.protocol.content_encoding import ZSTD_MISSING, zstd_library

LEVEL = 3
"""Compression level: the default of Zstandard."""

_contexts = threading.local()
"""The compressor of each thread. Creating one takes longer than compressing a message of some kilobytes."""


def require_zstd() -> None:
    """Raises LocalProtocolError, which names the extra to install, without a library for compression."""
    if zstd_library() is None:
        raise LocalProtocolError(f"compress_above: {ZSTD_MISSING}", code="body.codec_missing")


def compress(data: bytes) -> bytes:
    """Returns one frame, which states the size of its content, as all that are made in one call. Raises as `require_zstd`."""
    require_zstd()
    compressor = getattr(_contexts, "compressor", None)
    if compressor is None:
        compressor = _contexts.compressor = zstd_library().ZstdCompressor(LEVEL)
    frame: bytes = compressor.compress(data, compressor.FLUSH_FRAME)
    return frame
