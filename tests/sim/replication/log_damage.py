"""Damage to the log of a node that does not run, and what must hold of logs and messages afterwards."""

from qmq_node.log.log import SegmentedLog
from tests.sim.world.cluster import Host

Range = tuple[int, int]


def flip(host: Host, offset: int) -> None:
    """Change a byte of the log of a broker at a log offset, for good."""
    folder = f"/{host.name}/log"
    base = max(int(name) for name in host.disk.list_dir(folder) if name.isdigit() and int(name) <= offset)
    inode = host.disk.names[f"{folder}/{base:020}"]
    inode.content[offset - base] ^= 1
    inode.synced[offset - base] ^= 1


def remove_segment(host: Host, base: int) -> None:
    """Remove a segment of the log of a broker, for good."""
    host.disk.remove(f"/{host.name}/log/{base:020}")
    host.disk.sync_dir(f"/{host.name}/log")


def commits(log: SegmentedLog, begin: int = 0) -> list[Range]:
    """Begin and end of each commit with records from a segment's base on."""
    found: list[Range] = []
    log.stored.walk(begin, lambda commit: found.append((commit.offset, commit.end)), lambda _: False)
    return found


def damage(log: SegmentedLog) -> list[Range]:
    """What is damaged of a log."""
    return [(one.begin, one.end) for one in log.stored.damaged]


def content(log: SegmentedLog, lost: Range) -> dict[int, bytes]:
    """Base and bytes of each segment that is not lost as a whole, with zeros where it is and behind the end."""
    found = {}
    for info in log.stored.segments():
        if info.base >= log.written_end or (lost[0] <= info.base and info.end <= lost[1]):
            continue
        data = bytearray(log.stored.read(info.base, info.bytes))
        for begin, end in (lost, (log.written_end, info.end)):
            low, high = max(begin, info.base), min(end, info.end)
            if low < high:
                data[low - info.base : high - info.base] = bytes(high - low)
        found[info.base] = bytes(data)
    return found
