"""Parts of `/stats` of a broker, as the collector reads them."""

from typing import Any

from console.cluster.group_numbers import GROUP_NUMBERS

NOT_REPORTED = {"consumers_online", "retry_lag"}
"""Numbers of a group that the console counts."""


def consumer(consumer_id: str, *, online: bool = True, duplicate: bool = False) -> dict[str, Any]:
    return {"consumer_id": consumer_id, "online": online, "duplicate": duplicate}


def group_stats(name: str = "g", **values: Any) -> dict[str, Any]:
    """A consumer group with these values; every other number is 0."""
    numbers = {key: 0 if number.is_whole else 0.0 for key, number in GROUP_NUMBERS.items() if key not in NOT_REPORTED}
    others = {
        "group": name, "broadcast": False, "redelivered": 0, "withheld": 0, "skipped_by_retention": 0, "paused": False,
        "steady_ack_rate": values.get("ack_rate", 0.0), "consumers": [consumer("c1"), consumer("c2", online=False)],
    }  # fmt: skip
    return {**numbers, **others, **values}


def subject_stats(name: str, begin: int, end: int, *groups: dict[str, Any], **values: Any) -> dict[str, Any]:
    """A subject with these values, and groups that `group_stats` made."""
    base = {
        "subject": name, "begin_sequence": begin, "end_sequence": end, "send_rate": 1.0, "send_bytes_rate": 100.0, "withheld": 0,
        "steady_send_rate": values.get("send_rate", 1.0),
    }  # fmt: skip
    return {**base, "groups": list(groups), **values}


def node_stats(*subjects: dict[str, Any], **values: Any) -> dict[str, Any]:
    """A broker node with subjects that `subject_stats` made."""
    head = {
        "state": "read_write", "state_reason": None, "state_why": None, "version": "1", "disk_free_bytes": 5, "connections": 1,
        "uptime_seconds": 7.3, "log": {"begin": 0, "end": 9, "synced_end": 9, "damaged": []},
        "replication": {"damaged_ranges": 0, "repaired_ranges": 0, "scrub": None},
    }  # fmt: skip
    return {**head, "subjects": list(subjects), **values}
