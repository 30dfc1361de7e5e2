"""Encodings of property `data`, which property `qmq_contentEncoding` names: base64, and base64 of a Zstandard frame.

Zstandard is `compression.zstd` of Python 3.14, or its backport for earlier versions.
"""

import binascii
from base64 import b64decode
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any

from qmq.errors import BodyUndecodable
from qmq.protocol.frames import MESSAGE_BYTES_MAX

ENCODING_BASE64 = "base64"
ENCODING_ZSTD = "zstd+base64"
CONTENT_BYTES_MAX = MESSAGE_BYTES_MAX
"""Most bytes that a body may decompress to: as many as a message may have."""
ZSTD_MISSING = "compression needs Python 3.14 or the package backports.zstd. Install it with: pip install 'pyqmq[zstd]'"


@lru_cache(maxsize=1)
def zstd_library() -> Any:
    """The module for Zstandard that is installed; None without one."""
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return import_module(name)
    return None


def content_bytes(text: str, encoding: str, *, bytes_max: int = CONTENT_BYTES_MAX) -> bytes:
    """Return what an encoded text stands for, decompressed.

    Args:
        bytes_max: of a compressed one: how many bytes it may decompress to.

    Raises:
        BodyUndecodable: the encoding is unknown, the text is damaged, or its content is too large.
    """
    if encoding not in (ENCODING_BASE64, ENCODING_ZSTD):
        raise BodyUndecodable(
            f"the body has the unknown encoding {encoding[:60]!r}, this version knows {ENCODING_BASE64} and {ENCODING_ZSTD}. "
            "Upgrade the consumer"
        )
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BodyUndecodable(f"the body is damaged: it is not base64 ({error})") from error
    return data if encoding == ENCODING_BASE64 else _decompressed(data, bytes_max)


def _decompressed(data: bytes, bytes_max: int) -> bytes:
    zstd = zstd_library()
    if zstd is None:
        raise BodyUndecodable(f"the body is compressed; {ZSTD_MISSING}", code="body.codec_missing")
    options = {zstd.DecompressionParameter.window_log_max: (CONTENT_BYTES_MAX - 1).bit_length()}
    try:
        reader = zstd.ZstdDecompressor(options=options)
        content: bytes = reader.decompress(data, max_length=bytes_max + 1)
    except zstd.ZstdError as error:
        raise _damaged(error) from error
    if len(content) > bytes_max:
        raise BodyUndecodable(f"the body decompresses to more than {bytes_max} bytes", code="body.too_large")
    if not reader.eof or reader.unused_data:
        raise _damaged("the frame is incomplete" if not reader.eof else "there are bytes after the frame")
    return content


def _damaged(why: object) -> BodyUndecodable:
    return BodyUndecodable(f"the body is damaged: {why}")
