"""crc32 of zlib, computed several times as fast where the package isal (extra `node`) is installed."""

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
