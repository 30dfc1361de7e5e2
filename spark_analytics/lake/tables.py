"""What the lake keeps of each table: by which moment, in which order inside a file, and for how many days."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table of the lake."""

    name: str
    moment: str
    """The column whose hour (UTC) says in which folder a row is."""
    order: tuple[str, ...]
    """How a compacted file is sorted: what is read together lies together."""
    keep_days: int
    is_streamed: bool = True
    """A stream of the nodes fills it; others are written by jobs."""


TABLES = {
    table.name: table
    for table in (
        LakeTable("index", "stored_at", ("subject", "broker_group", "sequence"), 15),
        LakeTable("progress", "at", ("subject", "group", "broker_group", "position"), 15),
        LakeTable("retries", "stored_at", ("subject", "group", "broker_group", "sequence"), 35),
        LakeTable("dead_letters", "stored_at", ("subject", "group", "broker_group", "sequence"), 35),
        LakeTable("nodes", "measured_at", ("broker_group", "node_id", "measured_at"), 35, is_streamed=False),
        LakeTable("ranges", "sampled_at", ("subject", "broker_group", "sampled_at"), 35, is_streamed=False),
        LakeTable("stored_hours", "at", ("subject", "broker_group", "at"), 35, is_streamed=False),
        LakeTable("group_state", "at", ("subject", "group", "broker_group"), 35, is_streamed=False),
        LakeTable("stored_tail", "at", ("subject", "broker_group", "second"), 35, is_streamed=False),
    )
}
STREAMED = tuple(table.name for table in TABLES.values() if table.is_streamed)
