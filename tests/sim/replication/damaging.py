"""Damage on the disk of one member of a broker group, as a test of repairs makes it."""

from qmq.protocol.replication import LOG_FILE
from qmq_node.log.record import UNKNOWN_CHAIN, CommitHeader, Position
from qmq_node.log.recovery import Walker
from qmq_node.log.segment import Segments
from qmq_node.repair.ranges import DamagedRange
from qmq_node.repair.repairs import Repairs
from tests.sim.replication.groups import Group
from tests.sim.replication.pair import Members, client_of, send
from tests.sim.world.cluster import Host
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async


async def filled(group: Group, count: int = 20) -> list[str]:
    """Messages that the group's master has acknowledged, each in a commit of its own, and that all members have."""
    sent: list[str] = []
    async with client_of(group.master) as client:
        await client.begin()
        for number in range(count):
            sent += await send(client, [number])
    await group.all_equal()
    return sent


def segment(host: Host, base: int = 0) -> str:
    """The file of a segment of a node's log."""
    return f"/{host.name}/log/{base:020}"


def flip(host: Host, place: int, base: int = 0) -> None:
    """Change a byte of a segment, on the disk and in the page cache."""
    inode = host.disk.names[segment(host, base)]
    inode.content[place] ^= 1
    inode.synced[place] ^= 1


def remove_checkpoints(host: Host) -> None:
    """Have a node replay its log from its begin when it starts."""
    for path in list(host.disk.names):
        if "/log/" not in path and "checkpoint" in path:
            host.disk.remove(path)


def commits(host: Host) -> list[CommitHeader]:
    """The commits with records that are whole in a node's log."""
    headers: list[CommitHeader] = []
    segments = Segments(host.disk, f"/{host.name}/log")
    walker = Walker(segments, lambda commit: headers.append(commit.header), skip_unreadable=True)
    walker.walk(Position(segments.begin or 0, UNKNOWN_CHAIN))
    segments.close()
    return headers


def log_repairs(group: Group | Members, name: str) -> Repairs:
    """The repairs of a node that runs."""
    repairs = group.broker(name).replication.repairs.repairs
    assert repairs is not None, f"the log of {name} is not open"
    return repairs


def found(group: Group, name: str, commit: CommitHeader) -> None:
    """Have a node find a commit damaged, as a reader of its log does."""
    log_repairs(group, name).found(DamagedRange(LOG_FILE, 0, commit.offset, commit.end, "commits can't be read"))


async def repaired(group: Group | Members, *names: str) -> None:
    """Wait until nothing of these nodes is damaged."""

    def is_done(name: str) -> bool:
        if group.hosts[name].server is None or group.broker(name).replication.repairs.repairs is None:
            return False
        repairs = log_repairs(group, name)
        return not repairs.is_damaged and not repairs.pending

    await eventually_async(lambda: all(map(is_done, names)), 120)


def stop_at_write(group: Group, host: Host, number: int, *, is_power_cut: bool) -> None:
    """Kill a node, or cut its power, when it has changed its log this number of times."""
    changes = 0

    def observe(what: str, path: str) -> None:
        nonlocal changes
        if what == "read" or "/log/" not in path:
            return
        if changes == number:
            stop = host.cut_power if is_power_cut else host.kill
            running_loop().call_soon(stop, context=group.cluster.network.context)
        changes += 1

    host.disk.observe = observe
