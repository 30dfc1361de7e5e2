"""Let the C library keep freed memory instead of returning it to the system at once.

Receive buffers of large batches live for one commit. glibc returns blocks of their size to the system when they
are freed and gets new, zeroed pages for the next ones, which cost a fifth of the throughput at 1 KB messages.
"""

import ctypes
import ctypes.util

_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
KEEP_BYTES = 256 << 20
"""Most freed memory that the process keeps."""
BLOCK_BYTES = 32 << 20
"""Blocks up to this size come from the kept memory (glibc allows no more)."""
STEP_BYTES = 16 << 20


def keep_freed_memory() -> bool:
    """Set glibc's limits. Returns False with another C library, whose behaviour is unchanged."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, BLOCK_BYTES), (_M_TRIM_THRESHOLD, KEEP_BYTES), (_M_TOP_PAD, STEP_BYTES))
    done = [mallopt(which, value) == 1 for which, value in settings]
    return all(done)
