"""Zstandard with bounded decompression: `compression.zstd` of Python 3.14, or its backport for earlier versions."""

import threading
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any

from qmq.errors import BodyUndecodable, LocalProtocolError
from qmq.protocol.frames import MESSAGE_BYTES_MAX

LEVEL = 3
"""Compression level: the default of Zstandard."""
CONTENT_BYTES_MAX = MESSAGE_BYTES_MAX
"""Most bytes that a body may decompress to: as many as a message may have."""
MISSING = "compression needs Python 3.14 or the package backports.zstd. Install it with: pip install 'pyqmq[zstd]'"

_contexts = threading.local()
"""The compressor of each thread. Creating one takes longer than compressing a message of some kilobytes."""


def require_zstd() -> None:
    """Raises LocalProtocolError, which names the extra to install, without a library for compression."""
    if library() is None:
        raise LocalProtocolError(f"compress_above: {MISSING}", code="body.codec_missing")


@lru_cache(maxsize=1)
def library() -> Any:
    """The module that is installed; None without one."""
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return import_module(name)
    return None


def compress(data: bytes) -> bytes:
    """Returns one frame, which states the size of its content, as all that are made in one call. Raises as `require_zstd`."""
    require_zstd()
    compressor = getattr(_contexts, "compressor", None)
    if compressor is None:
        compressor = _contexts.compressor = library().ZstdCompressor(LEVEL)
    frame: bytes = compressor.compress(data, compressor.FLUSH_FRAME)
    return frame


def decompress(data: bytes) -> bytes:
    """Returns the content of a frame of at most CONTENT_BYTES_MAX bytes. Raises BodyUndecodable."""
    zstd = library()
    if zstd is None:
        raise BodyUndecodable(f"the body is compressed; {MISSING}", code="body.codec_missing")
    options = {zstd.DecompressionParameter.window_log_max: (CONTENT_BYTES_MAX - 1).bit_length()}
    try:
        reader = zstd.ZstdDecompressor(options=options)
        content: bytes = reader.decompress(data, max_length=CONTENT_BYTES_MAX + 1)
    except zstd.ZstdError as error:
        raise _damaged(error) from error
    if len(content) > CONTENT_BYTES_MAX:
        raise BodyUndecodable(f"the body decompresses to more than {CONTENT_BYTES_MAX} bytes", code="body.too_large")
    if not reader.eof or reader.unused_data:
        raise _damaged("the frame is incomplete" if not reader.eof else "there are bytes after the frame")
    return content


def _damaged(why: object) -> BodyUndecodable:
    return BodyUndecodable(f"the body is damaged: {why}")
