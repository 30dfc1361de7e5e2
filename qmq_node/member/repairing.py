"""class MemberRepairs: from which members a node repairs what is damaged on its disk, and when."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prometheus_client.core import Metric

from qmq.errors import ProtocolError, QmqError
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import ReplicaRole
from qmq.protocol.replication import LOG_FILE
from qmq_node.log.log import SegmentedLog
from qmq_node.member.member_store import MemberStore
from qmq_node.node.node import Node
from qmq_node.process.counters import MetricFamilies
from qmq_node.process.life import LifeEnded
from qmq_node.repair.log_ranges import LogRanges
from qmq_node.repair.range_reader import RangeReader
from qmq_node.repair.ranges import DamagedRange, RepairableFiles, WantedRange
from qmq_node.repair.repairs import Repairs
from qmq_node.repair.serving import RangeServing
from qmq_node.replication.rate_limit import RateLimit
from qmq_node.replication.slave_claim import RangeClaim
from qmq_node.replication.state_files import WantedBytes
from qmq_node.replication.switch_overs import SwitchOverRejected, SwitchOverUnknown

if TYPE_CHECKING:
    from qmq_node.member.replication import Replication

RESIGN_SECONDS = 600.0
"""A master with damage has a slave promoted at most this often. Meanwhile it repairs in place."""

_REPAIRING_ROLES = frozenset(
    {ReplicaRole.WAITING, ReplicaRole.FOLLOWING, ReplicaRole.IN_SYNC, ReplicaRole.MASTER, ReplicaRole.FAILED}
)
"""Roles in which a member repairs. One that copies replaces what it has; others change their role in a moment."""


@dataclass(eq=False, repr=False)
class MemberRepairs:
    """Serves ranges to other members, and repairs those of this node from them."""

    _node: Node
    _store: MemberStore
    _role: "Replication"
    _secret: NodeSecret | None
    serving: RangeServing = field(init=False)
    repairs: Repairs | None = field(default=None, init=False)
    """Made when the log is open."""
    _log: LogRanges = field(init=False)

    def __post_init__(self) -> None:
        node, options = self._node, self._node.options
        self.serving = RangeServing(
            options.broker_group,
            node.node_id,
            lambda: node.folder.replica.state,
            lambda: self._role.member.membership,
            self._files_of,
            RateLimit(node.clock, options.copy_bytes_per_second),
        )

    def start(self, log: SegmentedLog) -> None:
        """Begin to serve and to repair, now that the log is open."""
        store, state = self._store, self._node.folder.replica
        self._log = LogRanges(log, lambda: state.state.epoch, store)
        self.repairs = Repairs(
            self._log, store.hour_ranges, self._readers, self._node.clock, self._node.supervisor, self._may_repair,
            self._attempted,
        )  # fmt: skip
        self.repairs.start()
        store.watch_repairs(lambda: self.has_untried and bool(self._readers()))

    def found(self, damaged: DamagedRange) -> None:
        """Damage was found: have it repaired. Only once the log is open."""
        assert self.repairs is not None
        self.repairs.found(damaged)

    def metrics(self, families: MetricFamilies) -> Iterable[Metric]:
        """The metrics of repairs, from when the log is open."""
        if (repairs := self.repairs) is not None:
            text = "Damaged ranges that were repaired from other members, by kind"
            yield families.by("repaired_ranges", text, "kind", {"log": 0, "hour": 0, **repairs.repaired})
            text = "Attempts to repair a damaged range that failed"
            yield families.counter("failed_repairs", text, repairs.failed_attempts)

    @property
    def repaired_ranges(self) -> int:
        """Ranges that were repaired."""
        return self.repairs.repaired.total() if self.repairs is not None else 0

    def _files_of(self, name: str) -> RepairableFiles | None:
        if self.repairs is None:
            return None
        return self._log if name == LOG_FILE else self._store.hour_ranges

    @property
    def is_damaged(self) -> bool:
        """Whether this node has damage that is not repaired, so that others are better masters; lost ranges do not count."""
        if self.repairs is None or not self.repairs.is_damaged:
            return False
        lost = self._role.log.stored.lost
        return any(not (one.is_log and lost.covers(one.begin, one.end)) for one in self.repairs.damaged)

    @property
    def has_untried(self) -> bool:
        """Whether a damaged range was not tried yet: its log need not be replaced."""
        return self.repairs is not None and self.repairs.has_untried

    def report(self) -> dict[str, Any]:
        """Return the table `repairs` of the page /stats."""
        return self.repairs.report() if self.repairs is not None else {}

    async def read_elsewhere(self, wanted: WantedBytes) -> bytes:
        """Read bytes of the master's state that are damaged there from another member; nothing if none has them."""
        for reader in self._others():
            data = b""
            try:
                while left := wanted.bytes - len(data):
                    at = wanted.begin + len(data)
                    answer = await reader.read(WantedRange(wanted.file, wanted.since, at, at + left))
                    if answer.begin != at or len(answer.data) > left:
                        raise ProtocolError(
                            f"{len(answer.data)} bytes from {answer.begin} on, requested were {left} from {at} on"
                        )
                    data += answer.data
                return data
            except QmqError as error:
                self._node.logger.warning("%s is damaged at the master; from %s: %s", wanted.file, reader.name, error)
            finally:
                await reader.close()
        return b""

    def _readers(self) -> Sequence[RangeReader]:
        """Those of members that this node repairs from now."""
        is_copying = self._node.folder.replica.state.copying is not None
        return () if is_copying or self._role.member.role not in _REPAIRING_ROLES else self._others()

    def _others(self) -> Sequence[RangeReader]:
        """One for each other member whose address is known, the master first."""
        member, state = self._role.member, self._node.folder.replica.state
        sent, own = member.membership, self._node.node_id
        if sent is None or own not in sent.members:
            return ()
        if (sent.epoch, sent.promotion_id) != (state.epoch, state.promotion_id):
            return ()
        addresses = dict(zip(sent.members, sent.sync_addresses, strict=False))
        addresses[sent.master] = sent.master_sync_address or addresses.get(sent.master, "")
        others = sorted((name for name in sent.members if name != own), key=lambda name: name != sent.master)
        return [
            RangeReader(
                name,
                addresses[name],
                RangeClaim(sent.broker_group, own, state.epoch, state.promotion_id, name),
                self._secret,
            )
            for name in others
            if addresses.get(name)
        ]

    async def _may_repair(self) -> bool:
        """Have a slave without damage lead first if this node does; False if one does from now on."""
        role, changes, now = self._role, self._node.machine.role_changes, self._node.clock.monotonic()
        if role.member.leading is None or not role.is_serving or not self.is_damaged:
            return True
        if changes.resigned_at is not None and now - changes.resigned_at < RESIGN_SECONDS:
            return True
        changes.resigned_at = now
        self._node.logger.error("this master has damage on its disk, and has a slave promoted if one is healthy")
        try:
            await role.switch_over("")
        except (SwitchOverRejected, SwitchOverUnknown) as error:
            self._node.logger.warning("this master repairs its disk in place: %s", error)
            return True
        return False

    def _attempted(self) -> None:
        """All ranges that were due were tried."""
        shell = self._role.shell
        if not shell.log_problem or self.repairs is None:
            return
        if not self.is_damaged:
            shell.end(LifeEnded("the log was repaired"))
        elif not self.has_untried:
            # The log may have to be replaced.
            self._role.member.memberships.changed.set()
