"""What must hold of a broker group with slaves at any moment. `GroupWatch` looks at the disks and nodes of all members.

When it looks:

- at each rise of a master's high watermark, before anything is answered because of it: whatever is acknowledged is then compared
  with the disks of the stored membership's in-sync set;
- at each change of the stored membership: a member that is added, or promoted, has what was acknowledged before;
- at each start of an epoch;
- at each answer that a client gets;
- every half second of virtual time and after the run: everything, on all members, also on those that do not run. Bytes that were
  lost or changed, and epochs that fell, stay so until then.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from zlib import crc32

from broker_node.reads.index_repair import BeingRepaired
from qmq.protocol.messages import decode_raw
from qmq.protocol.replication import COMMITS_BYTES_MAX
from qmq_node.commits.applying import AT_HAND_BYTES_MAX, Applying
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import FIRST_EPOCH, HEADER_BYTES
from qmq_node.log.watermark import Watermark
from qmq_node.node.storage import Storage
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.rules.membership import Membership
from qmq_node.replication.slave.joining import WINDOW_BYTES
from tests.sim.slaves.committed import MARK, CommittedLog
from tests.sim.slaves.hooks import Hook, hooked
from tests.sim.slaves.member_logs import durable_incarnation, durable_state, folder_of, log_begin, written
from tests.sim.swarm.history import Broken, History
from tests.sim.world.cluster import Cluster, Host, MemberNode
from tests.support.disks.disk_work import forget_removed, read_and_repair


class GroupWatch(CommittedLog):
    """Watches one broker group. What is broken goes to the history."""

    def __init__(self, cluster: Cluster, history: History, group: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._history = history
        self.group = group
        self.hosts = cluster.members(group)
        self._nodes = {f"{folder_of(host)}/log": node for node, host in self.hosts.items()}
        self.membership: Membership | None = None
        """The newest membership that was ever stored; a restored database may hold an older one."""
        self.damaged: set[str] = set()
        """Members whose disk has not what they left there, or has messages whose loss an operator accepted."""
        self.rejoining: set[str] = set()
        """Of these, those that may follow again without a new disk: what they have is whole, and only not the newest."""
        self.has_lost = False
        """An operator has accepted loss: of messages, or of acks only."""
        self._decided_epoch, self._promoted = 0, ""
        """Epoch and member of the newest promotion by which an operator accepted loss. Another master of an earlier epoch may
        run, cut off from everything, and acknowledge messages that are lost as well (docs/failover.md)."""
        self.lost_ids: set[str] = set()
        """Ids of messages whose loss an operator accepted."""
        self._durable: dict[str, int] = defaultdict(int)
        """By node id: up to here its disk holds, or held, what is committed."""
        self._epochs: dict[str, int] = defaultdict(int)
        """By node id: the highest epoch on its disk."""
        self._masters: dict[int, tuple[str, str]] = {}
        """By epoch: (node id, boot id) of its only writer."""
        self._logs: dict[Watermark, SegmentedLog] = {}
        self._numbers: dict[str, list[tuple[int, str]]] = defaultdict(list)
        """By subject: checksum and id of its messages by sequence, the same on all nodes."""
        self._read: dict[tuple[MemberNode, str], int] = {}
        """By node and subject: the first sequence that was not compared yet."""
        self._broken: set[str] = set()
        self.hooks: list[Hook] = []
        """What others watch while this one does."""
        self.on_truncate: Callable[[Host], None] = lambda _: None
        """Called before the log of a member is truncated."""

    def report(self, check: str, what: str) -> None:
        """Record a broken promise, once."""
        if what not in self._broken:
            self._broken.add(what)
            self._history.broken.append(Broken(check, f"{what} (at {self._cluster.loop.now - 1000:.3f} s)"))

    def new_disk(self, node: str) -> None:
        """A member lost its disk, and gets an empty one."""
        self._durable.pop(node, None)
        self._epochs.pop(node, None)
        self.damaged.discard(node)
        self.rejoining.discard(node)

    def discarded(self, node: str) -> None:
        """A member discards its log, and copies another one."""
        self._durable.pop(node, None)

    def knows_decision(self, epoch: int) -> bool:
        """Whether a member with this epoch knows the newest promotion by which an operator accepted loss."""
        return epoch >= self._decided_epoch

    def loses(self, log: SegmentedLog) -> bool:
        """Whether what a master writes to its log is lost: an operator promoted another member since its epoch.

        What the promoted member writes before it knows, as the master of an earlier epoch, is in the log that it leads with.
        """
        return not self.knows_decision(log.epoch) and self.node_of(log)[0] != self._promoted

    def older_folder(self, node: str) -> None:
        """An older copy of a member's data folder was put back."""
        self._epochs.pop(node, None)

    def in_sync_nodes(self) -> set[str]:
        """Return the members of the newest membership's in-sync set that still have the disk with which they are in sync."""
        membership = self.membership
        if membership is None or len(membership.members) == 1:
            return set(membership.in_sync) if membership is not None else set()
        return {
            node
            for node in membership.in_sync
            if membership.incarnation_of(node) == durable_incarnation(self.hosts[node])
        }

    def accept_loss(self, node: str, end: int, membership: Membership) -> None:
        """An operator promotes a member whose log ends at `end`, by this membership: what is committed, and not in that
        log, is lost."""
        end = min(end, self._common_end(self.hosts[node]))
        self.membership, self.has_lost = membership, True
        self._decided_epoch, self._promoted = membership.epoch, node
        others = set(self.hosts) - {node}
        self.rejoining = others - (self.damaged - self.rejoining)
        self.damaged = others
        self._durable[node] = min(self._durable[node], end)
        lost = self._lose(end)
        self.lost_ids |= lost
        self._begin_at(log_begin(self.hosts[node]))
        for numbers in self._numbers.values():
            first = next((at for at, (_, message_id) in enumerate(numbers) if message_id in lost), len(numbers))
            del numbers[first:]
        server = self.hosts[node].server
        if isinstance(server, MemberNode) and server.log.high_watermark > len(self.committed):
            # An earlier decision lost what this member has: it is committed again.
            begin = len(self.committed)
            self._commit(written(self.hosts[node], begin, server.log.high_watermark), server.log.stored.segments())
        # What was lost may be pulled under the same number.
        self._history.damaged.add(self.group)

    # --- hooks -----------------------------------------------------------------------------------------------------

    def hooked(self) -> AbstractContextManager[None]:
        """Be called when a high watermark rises, an epoch begins, a log is truncated, and the membership changes."""
        self._cluster.database.on_membership.append(self.membership_changed)
        return hooked(
            (
                Hook(SegmentedLog, "__init__", self._made),
                Hook(Watermark, "confirm", self._moved),
                Hook(SegmentedLog, "complete", self._confirmed),
                Hook(Storage, "make_committer", self._writes),
                Hook(Leading, "start", self._leads),
                Hook(Applying, "__init__", self._opened),
                Hook(SegmentedLog, "truncate", self._truncates, is_before=True),
                *self.hooks,
            )
        )

    def _writes(self, storage: Storage) -> None:
        """An only member that starts serves what its log has."""
        if storage.opening is None and self.owns(storage.log):
            self._confirmed(storage.log)

    def _truncates(self, log: SegmentedLog, *_: object, **__: object) -> None:
        if self.owns(log):
            self.on_truncate(self.node_of(log)[1])

    def _opened(self, applying: Applying, *_: object, **__: object) -> None:
        """A member has opened its log: a crash leaves no damage in it."""
        if not self.owns(applying._log):
            return
        node, _ = self.node_of(applying._log)
        stored = applying._log.stored
        if not stored.damaged or node in self.damaged:
            return
        if self.damaged and all(stored.lost.covers(damage.begin, damage.end) for damage in stored.damaged):
            # It copied the log of a damaged member around what that one lacks, and repairs it from a third.
            self.damaged.add(node)
            self.rejoining.add(node)
        else:
            self.report("damage", f"{node} found damage that no fault made: {stored.damaged[0]}")

    def _made(self, log: SegmentedLog, *_: object, **__: object) -> None:
        self._logs[log.watermark] = log

    def _moved(self, watermark: Watermark, *_: object) -> None:
        self._confirmed(self._logs[watermark])

    def _confirmed(self, log: SegmentedLog, *_: object, **__: object) -> None:
        """A master's high watermark may have risen."""
        if not self.owns(log):
            return
        if self.loses(log):
            _, host = self.node_of(log)
            found = MARK.findall(written(host, 0, log.high_watermark))
            self.lost_ids |= {message_id.decode() for message_id in found if message_id not in self.committed_ids}
        elif log.high_watermark > len(self.committed):
            node, host = self.node_of(log)
            begin = len(self.committed)
            self._commit(written(host, begin, log.high_watermark), log.stored.segments())
            self._check_in_sync(f"the high watermark {log.high_watermark} of {node}")

    def _leads(self, leading: Leading) -> None:
        for node, host in self.hosts.items():
            broker = host.server
            if isinstance(broker, MemberNode) and broker.log is leading.log:
                mine = node, broker.replication.boot_id
                writer = self._masters.setdefault(leading.membership.epoch, mine)
                if writer != mine:
                    self.report("writer", f"epoch {leading.membership.epoch} is led by {mine}, and was by {writer}")
                self._check_used(node, host, leading.membership.epoch, "leads")
                if self.membership is not None and leading.membership.epoch < self.membership.epoch:
                    # It learned late of its promotion, and has a successor: nothing that it writes is confirmed.
                    continue
                if node not in self.damaged and not self.has_committed(host, 0, len(self.committed)):
                    self.report("in_sync", f"{node} leads epoch {leading.membership.epoch} and lacks committed bytes")

    def owns(self, log: SegmentedLog) -> bool:
        """Whether a log is that of a member; other groups and delay nodes have logs as well."""
        return log.stored.files.folder in self._nodes

    def node_of(self, log: SegmentedLog) -> tuple[str, Host]:
        """Return the member whose log it is: node id and host."""
        node = self._nodes[log.stored.files.folder]
        return node, self.hosts[node]

    def membership_changed(self, name: str, before: Membership, membership: Membership) -> None:
        """The stored membership was changed by a metaserver."""
        if name != self.group:
            return
        if not set(membership.in_sync) <= set(membership.members) or membership.master not in ("", *membership.in_sync):
            self.report(
                "membership", f"{membership.in_sync} in sync of {membership.members}, master {membership.master!r}"
            )
        if membership.place <= before.place:
            self.report("membership", f"{membership.place} follows {before.place}")
        is_newest = self.membership is None or before.place >= self.membership.place
        if is_newest and membership.version != before.version + 1:
            self.report("membership", f"version {membership.version} follows {before.version}")
        if is_newest and membership.master != before.master and membership.master not in before.in_sync:
            self.report("membership", f"{membership.master} was promoted, and in sync were {before.in_sync}")
        if (membership.master != before.master) and membership.epoch <= before.epoch:
            self.report(
                "membership", f"{membership.master} was promoted in epoch {membership.epoch}, after {before.epoch}"
            )
        if self.membership is None or membership.place > self.membership.place:
            self.membership = membership
        self._check_in_sync(f"membership {membership.place} with {membership.in_sync}")

    def _check_in_sync(self, when: str) -> None:
        """Each member of the newest membership's in-sync set has synced everything that is committed."""
        for node in self.in_sync_nodes() - self.damaged:
            begin, end = self._durable[node], len(self.committed)
            if begin < end and not self.has_committed(self.hosts[node], begin, end):
                self.report("in_sync", f"{node} is in sync and lacks committed bytes of [{begin}, {end}): {when}")
            self._durable[node] = end

    # --- answers ---------------------------------------------------------------------------------------------------

    def seen(self, message_id: str, how: str) -> None:
        """A client received the acknowledgement of a send, or the message."""
        if message_id.encode() not in self.committed_ids and message_id not in self.lost_ids:
            self.report("visible", f"{message_id} was {how} before it was below a high watermark")

    # --- looks -----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Compare everything on all members."""
        stored = self._cluster.database.stored.groups.get(self.group)
        if stored is not None and (self.membership is None or stored.membership.place > self.membership.place):
            self.membership = stored.membership
        for node, host in self.hosts.items():
            self._look_at_disk(node, host)
            if isinstance(host.server, MemberNode):
                self._look_at_node(node, host, host.server)
        self._compare_chains()

    def _look_at_disk(self, node: str, host: Host) -> None:
        end = self._durable[node]
        if node in self.damaged:
            end = len(self.committed)
            is_back = node in self.rejoining and self._follows_in_sync(node, host)
            if not is_back or not self.is_whole(host):
                return
            self.damaged.discard(node)
            self.rejoining.discard(node)
            self._durable[node] = end
        if not self.has_committed(host, 0, end):
            self.report("bytes", f"{node} lost or changed bytes below offset {end}, which are committed")
        epoch = durable_state(host).epoch
        if epoch < self._epochs[node]:
            self.report("epoch", f"the epoch on the disk of {node} fell from {self._epochs[node]} to {epoch}")
        self._epochs[node] = epoch

    def _follows_in_sync(self, node: str, host: Host) -> bool:
        """Whether a member in sync has a session with the master. Until then, earlier confirmations of it may arrive and count."""
        follower = host.server.replication.member.follower if isinstance(host.server, MemberNode) else None
        return (
            follower is not None
            and follower._slave is not None
            and self.membership is not None
            and node in self.membership.in_sync
        )

    def _look_at_node(self, node: str, host: Host, broker: MemberNode) -> None:
        log, member, applying = broker.log, broker.replication.member, broker.replication.shell.applying
        known = log.high_watermark if applying is None else max(applying.known_high_watermark, log.high_watermark)
        self._look_at_limits(node, broker)
        if broker.storage.opening is not None and broker.storage.opening.is_log_only:
            # It copies, and its store is not that of its log. What it has counts when it has opened it.
            return
        self._look_at_messages(node, broker)
        if node in self.damaged:
            return
        end = min(known, log.synced_end)
        if end > len(self.committed):
            # A slave applies a seal behind the last commit as well.
            if end > len(self.committed) + HEADER_BYTES:
                self.report(
                    "in_sync",
                    f"{node} knows the high watermark {known}, and no master had one above {len(self.committed)}",
                )
            end = len(self.committed)
        self._durable[node] = max(self._durable[node], end)
        if log.epoch > FIRST_EPOCH:
            self._check_used(node, host, log.epoch, "writes commits of")
        if member.follower is not None and member.follower._slave is not None:
            self._check_used(node, host, member.follower._slave.epoch, "follows")
        if applying is not None and not broker.storage.has_committer:
            # What is applied may end with a seal behind the last commit.
            limit = applying.known_high_watermark + HEADER_BYTES
            applied, checkpoint = applying.applied_end, broker.checkpoints.last_position.offset
            if max(applied, checkpoint) > limit:
                self.report("applied", f"{node} applied {applied}, with a checkpoint at {checkpoint}, above {limit}")
        elif broker.checkpoints.last_position.offset > known + HEADER_BYTES:
            self.report("applied", f"{node} has a checkpoint above its high watermark {known}")

    def _look_at_limits(self, node: str, broker: MemberNode) -> None:
        follower, applying = broker.replication.member.follower, broker.replication.shell.applying
        if follower is not None and follower._thread.pending_bytes > WINDOW_BYTES + COMMITS_BYTES_MAX:
            self.report("bounds", f"{node} has {follower._thread.pending_bytes} bytes to write")
        if applying is not None and applying.at_hand_bytes > AT_HAND_BYTES_MAX:
            self.report("bounds", f"{node} keeps {applying.at_hand_bytes} bytes to apply")

    def _check_used(self, node: str, host: Host, epoch: int, how: str) -> None:
        stored = durable_state(host).epoch
        if stored < epoch:
            self.report("epoch", f"{node} {how} epoch {epoch}, and its disk has epoch {stored}")

    def _look_at_messages(self, node: str, broker: MemberNode) -> None:
        """A sequence stands for one message on all nodes. What is not confirmed is not visible to clients."""
        if broker.storage.has_committer and not broker.replication.is_serving:
            return  # promoted, and its store has what is not confirmed yet; clients can't connect
        store = broker.store
        for subject in list(store.subjects.values()):
            key, end = (broker, subject.name), subject.visible_end
            forget_removed(store, subject)
            begin = max(self._read.get(key, 0), subject.begin)
            if begin >= end:
                continue
            numbers = self._numbers[subject.name]
            try:
                raws = read_and_repair(store, subject, begin, end)
            except BeingRepaired:
                continue  # a client would get the same retriable error
            self._read[key] = end
            for sequence, raw in enumerate(raws, begin):
                if raw is None:
                    if node not in self.damaged:
                        self.report("sequence", f"{node} {subject.name} {sequence} can't be read")
                    continue
                if sequence < len(numbers) and numbers[sequence][0] != crc32(raw):
                    found = decode_raw(raw)[0].message_id
                    # It may have what an operator decided to lose.
                    if found not in self.lost_ids:
                        self.report("sequence", f"{node} {subject.name} {sequence} is {found}, and was another message")
                elif sequence == len(numbers):
                    message_id = decode_raw(raw)[0].message_id
                    if message_id not in self.lost_ids:
                        numbers.append((crc32(raw), message_id))
                        self.seen(message_id, f"visible on {node}")

    def _compare_chains(self) -> None:
        """Two logs are equal up to where their epochs say so."""
        running = [
            (node, host, host.server)
            for node, host in self.hosts.items()
            if isinstance(host.server, MemberNode)
            and not host.server.replication.member.changes_log
            and node not in self.damaged
        ]
        for number, (node, host, broker) in enumerate(running):
            for other, other_host, other_broker in running[number + 1 :]:
                ends = broker.log.written_end, other_broker.log.written_end
                common = broker.log.epochs.common_end(ends[0], other_broker.log.epochs, ends[1])
                # Below, both are compared with what is committed.
                begin = max(min(self._durable[node], self._durable[other]), self.removed_to)
                if common is None or common <= begin:
                    continue
                if written(host, begin, common) != written(other_host, begin, common):
                    self.report("chains", f"{node} and {other} differ below offset {common}, with equal epochs")
