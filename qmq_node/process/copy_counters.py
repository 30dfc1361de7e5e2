"""class CopyCounters: what the node of a process has found when it copied another member."""

from dataclasses import dataclass

from qmq_node.process.counters import counted


@dataclass(slots=True)
class CopyCounters:
    """Counts from the start of the process, also when the node begins another life in it: it does so at the end of each copy."""

    damaged_entries: int = counted(
        "copied_damaged_entries", "Entries and messages of files that were copied damaged, as they are at the master"
    )
