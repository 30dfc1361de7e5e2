"""Garbage collection of a daemon: a full collection examines what is new since the last one, not all objects of the process."""

import gc
import logging

from qmq.clock import Clock
from qmq.supervisor import Supervisor

logger = logging.getLogger("qmq")

CHECK_SECONDS = 60.0
COMPLETE_SECONDS = 6 * 3600.0
"""How often all objects are examined. Cycles of objects that survived a full collection are freed only then."""


def limit_collections(supervisor: Supervisor, clock: Clock) -> None:
    """Keep pauses by the garbage collector short, for this process.

    A full collection stops all threads: 0.2 s for a million objects, and subjects, groups and routes are millions that live for
    ever. So whatever survives a full collection is left out of the following ones, except once in COMPLETE_SECONDS.
    """
    completed_at = clock.monotonic()

    def freeze(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()

    def complete() -> None:
        nonlocal completed_at
        if clock.monotonic() - completed_at < COMPLETE_SECONDS:
            return
        completed_at = began = clock.monotonic()
        gc.unfreeze()
        found = gc.collect()
        logger.info("complete garbage collection: %d objects in %.3f s", found, clock.monotonic() - began)

    gc.callbacks.append(freeze)
    supervisor.every(CHECK_SECONDS, "garbage", complete)
