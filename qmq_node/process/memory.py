"""The memory of a daemon's process: what the C library keeps, and how long garbage collections take."""

import ctypes
import gc
import logging

from qmq.clock import Clock
from qmq.supervisor import Supervisor

logger = logging.getLogger("qmq")

_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
KEEP_BYTES = 256 << 20
"""Most freed memory that the process keeps."""
BLOCK_BYTES = 32 << 20
"""Blocks up to this size come from the kept memory (glibc allows no more)."""
STEP_BYTES = 16 << 20
CHECK_SECONDS = 0.5
YOUNG_MAX = 5_000
"""New objects above which they are examined: some 2 ms."""
THRESHOLDS = (700, 5, 1 << 30)
"""For `gc.set_threshold`: new objects are examined when there are 700, those that survived when there are some 5,000."""
COMPLETE_SECONDS = 6 * 3600.0
"""How often all objects are examined. Cycles of objects that survived a collection of generation 1 are freed only then."""


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory instead of returning it to the system; False with another C library, which is left as it is.

    Receive buffers of large batches live for one commit. Returned, they came back as zeroed pages for the next commits, which cost
    a fifth of the throughput at 1 KB messages.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, BLOCK_BYTES), (_M_TRIM_THRESHOLD, KEEP_BYTES), (_M_TOP_PAD, STEP_BYTES))
    done = [mallopt(which, value) == 1 for which, value in settings]
    return all(done)


def limit_collections(supervisor: Supervisor, clock: Clock) -> None:
    """Keep pauses by the garbage collector short, for this process.

    A full collection stops all threads: 0.2 s for a million objects, and subjects, groups and routes are millions that live as
    long as the process. So what survives a collection of generation 1 is left out of the following ones, except once in
    COMPLETE_SECONDS. No other one is full: it would untrack dicts of strings and tuples, and the next item of such a dict has all
    of it examined again.

    The interpreter begins a collection by the number of new objects less that of freed ones. Where each new object replaces an
    older one it begins none, and the next one examines all of them; so this counts new objects itself.
    """
    gc.set_threshold(*THRESHOLDS)
    # What was imported lives as long as the process.
    gc.freeze()
    completed_at = clock.monotonic()

    def freeze(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] > 0:
            gc.freeze()

    def check() -> None:
        nonlocal completed_at
        if clock.monotonic() - completed_at < COMPLETE_SECONDS:
            if len(gc.get_objects()) > YOUNG_MAX:
                gc.collect(1)
            return
        completed_at = began = clock.monotonic()
        gc.unfreeze()
        found = gc.collect()
        logger.info("complete garbage collection: %d objects in %.3f s", found, clock.monotonic() - began)

    gc.callbacks.append(freeze)
    supervisor.every(CHECK_SECONDS, "garbage", check)
