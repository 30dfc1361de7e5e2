"""What a node reports of its log: on its page /stats, and in its log lines after a start."""

import logging
from typing import Any

from qmq.protocol.reasons import Reason
from qmq_node.log.log import SegmentedLog


def state_reason(reason: Reason) -> dict[str, Any]:
    """Return why a node accepts no sends or serves no clients: the sentence, and the same as a code with values; null: it does."""
    return {"state_reason": reason, "state_why": reason.as_json() if reason else None}


def log_report(log: SegmentedLog) -> dict[str, Any]:
    """Return the log for `/stats`. Offsets in bytes."""
    return {
        "begin": log.begin,
        "end": log.written_end,
        "synced_end": log.synced_end,
        "damaged": [{"begin": d.begin, "end": d.end, "why": d.why} for d in log.stored.damaged],
    }


def log_recovery(log: SegmentedLog, seconds: float, logger: logging.Logger) -> None:
    """Log what opening a log found.

    Args:
        seconds: how long it took.
    """
    logger.info("recovered in %.2f s: the log begins at %d and ends at %d", seconds, log.begin, log.written_end)
    if log.torn_bytes:
        logger.warning("%d bytes of an unanswered commit at the log's end were cleared", log.torn_bytes)
    for damage in log.stored.damaged:
        sends = ", sends are refused" if damage in log.stored.own_damage else ""
        logger.error(
            "the log is damaged between offsets %d and %d (%s): messages there are withheld%s",
            damage.begin, damage.end, damage.why, sends,
        )  # fmt: skip
