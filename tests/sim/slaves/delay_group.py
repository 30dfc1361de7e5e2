"""What holds of a delay group with slaves beside what holds of every group: members at one log offset derive the same from it."""

from contextlib import closing
from itertools import pairwise

from delay_node.delay_node import DelayNode
from delay_node.recovery import open_store
from delay_node.store import DelayStore
from qmq.clock import Clock
from qmq_node.log.handles import HandleCache
from qmq_node.log.replay import MemberOpening
from qmq_node.log.segment import SegmentInfo
from tests.sim.slaves.final_checks import FinalChecks
from tests.sim.slaves.watch import GroupWatch
from tests.sim.swarm.history import Broken, History
from tests.sim.world.cluster import Cluster, Host, MemberNode
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.delay_states import differences, state_of

ROOT = "/replay"


class DelayGroupWatch(GroupWatch):
    """Watches one delay group."""

    def __init__(self, cluster: Cluster, history: History, group: str) -> None:
        super().__init__(cluster, history, group)
        self._bases: set[int] = set()
        """Log offsets where segments of what is committed begin."""

    def _commit(self, new: bytes, segments: list[SegmentInfo]) -> None:
        super()._commit(new, segments)
        self._bases.update(info.base for info in segments)

    def replayed(self, clock: Clock) -> DelayStore:
        """Return a store that is made from all that is committed, and nothing else."""
        disk, end = MemoryDisk(), len(self.committed)
        disk.make_dir(f"{ROOT}/log")
        bases = sorted(base for base in self._bases if base < end)
        for begin, behind in pairwise([*bases, end]):
            with closing(disk.create(f"{ROOT}/log/{begin:020}", behind - begin)) as file:
                file.pwritev([memoryview(self.committed[begin:behind])], 0)
        store, _ = open_store(
            disk, ROOT, segment_bytes=1 << 20, handles=HandleCache(disk, clock=clock), member=MemberOpening(end)
        )
        return store

    def look(self) -> None:
        """Compare everything on all members, also the files and counters of those that have applied equally much."""
        super().look()
        found: dict[int, tuple[str, DelayNode]] = {}
        for node, host in self.hosts.items():
            server = host.server
            if not isinstance(server, DelayNode) or node in self.damaged or not _is_comparable(server):
                continue
            at = server.log.watermark.position.offset
            other, first = found.setdefault(at, (node, server))
            if other != node and (what := differences(state_of(first.store), state_of(server.store))):
                self.report("derived", f"at log offset {at} {node} and {other} differ in {what}")

    def _look_at_messages(self, node: str, broker: MemberNode) -> None:
        """Messages of a schedule are compared in `look`."""


def _is_comparable(node: DelayNode) -> bool:
    """Whether the store is that of the log up to its high watermark."""
    opening = node.storage.opening
    if node.store.commit_hold.is_within or (opening is not None and opening.is_log_only):
        return False
    return node.replication.is_serving or not node.storage.has_committer


class DelayFinalChecks(FinalChecks):
    """Looks at the members of one delay group when all have the same log."""

    _watch: DelayGroupWatch

    def check(self) -> None:
        """Check that all members have what was committed, and the same state, which also follows from the whole log alone, and from
        what a power cut leaves on the disk of one."""
        watch, history = self._watch, self._history
        nodes = {node: host.server for node, host in watch.hosts.items() if isinstance(host.server, DelayNode)}
        for node, host in watch.hosts.items():
            if not watch.has_committed(host, 0, len(watch.committed)):
                history.broken.append(Broken("bytes", f"the log of {node} is not what was committed"))
        states = {node: state_of(server.store) for node, server in nodes.items()}
        first, expected = next(iter(states.items()))
        for node, state in states.items():
            if what := differences(expected, state):
                history.broken.append(Broken("derived", f"{node} has another state than {first}: {what}"))
        if not watch.has_lost and (what := differences(expected, state_of(watch.replayed(self._cluster.meta.clock)))):
            history.broken.append(
                Broken("derived", f"{first} has another state than a replay of the whole log: {what}")
            )
        # All are equal.
        node = self._cluster.loop.rng("start").choice(list(nodes))
        self._check_start(watch.hosts[node], nodes[node])

    def _check_start(self, host: Host, node: DelayNode) -> None:
        """A start from what a power cut leaves gives the same."""
        disk = host.disk.after_power_cut()
        store, _ = open_store(
            disk, node.options.data_dir, segment_bytes=node.options.segment_bytes,
            handles=HandleCache(disk, clock=host.clock), member=MemberOpening(node.log.high_watermark),
        )  # fmt: skip
        if what := differences(state_of(node.store), state_of(store)):
            self._history.broken.append(Broken("derived", f"a start of {host.name} gives another state: {what}"))
