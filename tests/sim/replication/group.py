"""One broker group as the rules see it: all states that `qmq_node.replication.rules` allows, with messages and failures
in any order.

A state is a value. `steps` returns what can happen next; the exhaustive walk takes all of it, a random run one at a time. A log is
a tuple of entries (epoch, value), and an offset is a number of entries. Whatever is on its way, a confirmation or a request
to change the membership, may arrive at any later time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from typing import NamedTuple

from qmq.protocol.codes import FollowResult
from qmq_node.log.epochs import EpochChain
from qmq_node.replication.rules.following import LogEnd, TruncationRejected, answer_follow, check_truncation
from qmq_node.replication.rules.master import Master
from qmq_node.replication.rules.members import RemoveMember, ReplaceMember, leaving
from qmq_node.replication.rules.membership import (
    AddMember,
    ChangeInSync,
    ChangeRejected,
    Membership,
    Promotion,
    Resignation,
    UncleanPromotion,
)
from qmq_node.replication.rules.promotion import MemberReport, choose, recovered
from qmq_node.replication.rules.roles import Identity, ReplicaState, Step, step_for
from qmq_node.replication.rules.slave import Slave

Entry = tuple[int, int]
"""Epoch and value."""
Log = tuple[Entry, ...]


def membership_of_only_member(broker_group: str, node_id: str, state: ReplicaState) -> Membership | None:
    """Return the membership by which a node serves after its start, before any metaserver has sent one; None: it waits for one."""
    if not state.is_only_member:
        return None
    return Membership(broker_group, (node_id,), node_id, (node_id,), state.epoch, 0, state.promotion_id)


def applicable_end(slave: Slave) -> int:
    """Return up to where commits may be applied to the store: no later master truncates them (`Applying.advance`)."""
    return min(slave.high_watermark, slave.end)


@dataclass(frozen=True)
class Bounds:
    """How far a walk goes, and what can happen in it."""

    members: int = 2
    in_sync_min: int = 2
    values: int = 2
    epochs: int = 3
    """Promotions, the first included."""
    crashes: int = 2
    restores: int = 0
    """How often the database is restored from a backup."""
    new_disks: int = 0
    """How often the disk of a member is replaced while another one in sync keeps its own."""
    operator_promotions: int = 0
    """How often an operator promotes a member and accepts the loss of what it lacks."""
    grows: bool = False
    """The group has one member at first, and the others are added."""
    spares: int = 0
    """Nodes that are no members at first."""
    removals: int = 0
    """How often an operator removes a member. It may be added again with the folder that it has, which no metaserver does."""
    replacements: int = 0
    """How often an operator has a member replaced."""
    resigns: bool = False
    syncs_later: bool = False
    """Nodes write first and sync later: slaves get bytes before the master syncs them, and a crash loses what is not synced."""
    shares_syncs: bool = False
    """Slaves write several entries before they sync them, if they have a proof, and a crash loses any of them. With
    `syncs_later`."""
    joins: bool = False
    """Masters let their high watermark wait for slaves that are not in sync."""
    applies: bool = False
    """Nodes apply commits to a store and write checkpoints of it; truncations and epochs take several steps."""


class Node(NamedTuple):
    """A member: what is on its disk, and what it is while it runs."""

    state: ReplicaState
    log: Log = ()
    synced: int = 0
    role: Master | Slave | None = None
    """None: it waits."""
    applied: Log = ()
    """What its store was made from."""
    checkpoint: Log = ()
    intent: int | None = None
    """Where a truncation that it has begun ends the log."""
    known: int = 0
    """The highest high watermark that it knew in this process."""
    incarnation: str = "0"
    """Of its data folder: another one for each disk."""
    boot: str = ""
    """Of its process: another one for each start."""
    proof: int | None = None
    """On its disk: entries above it may be lost in any order. None: each is synced before the next is written."""


class Group(NamedTuple):
    """The membership, the members, and what is on its way."""

    membership: Membership
    nodes: tuple[Node, ...]
    confirmations: tuple[tuple[tuple[int, int, int, int], tuple[int, int]], ...] = ()
    """(slave, master, epoch, session) -> the end and CRC that the slave confirmed last; sorted."""
    requests: frozenset[ChangeInSync | Resignation] = frozenset()
    acknowledged: frozenset[int] = frozenset()
    """Values whose sends were answered."""
    committed: Log = ()
    """The longest log below a high watermark that any master had."""
    values: int = 0
    crashes: int = 0
    new_disks: int = 0
    older_membership: Membership | None = None
    """What a backup of the database has."""
    newest: Membership | None = None
    """The newest membership that the metaservers have in memory, and give to nodes; None: it is the stored one."""
    restores: int = 0
    operator_promotions: int = 0
    operator_epoch: int = 0
    """The epoch that an operator began last. What masters of older ones acknowledge from then on may be lost."""
    removals: int = 0
    replacements: int = 0

    @property
    def known_membership(self) -> Membership:
        """The membership as metaservers know it."""
        return self.membership if self.newest is None else self.newest


class Broken(Exception):
    """A state that must not be."""


Thunk = Callable[[], Group]


NAMES = tuple(f"n{number}" for number in range(4))
name = NAMES.__getitem__
"""The node id of a member."""
NUMBERS = {text: number for number, text in enumerate(NAMES)}


def chain_of(log: Log) -> EpochChain:
    """The epochs of a log."""
    found: list[tuple[int, int]] = []
    for offset, (epoch, _) in enumerate(log):
        if not found or found[-1][0] != epoch:
            found.append((epoch, offset))
    return EpochChain.of(found)


def crc_at(log: Log, end: int) -> int | None:
    """What stands for the CRC of the commit that ends at `end`: it depends on everything before."""
    return hash(log[:end]) if end <= len(log) else None


def common_length(one: Log, other: Log) -> int:
    """How many entries are equal from the beginning on."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return length


def begin(bounds: Bounds) -> Group:
    """The first state: the first member was promoted, and all are in sync."""
    members = NAMES[: 1 if bounds.grows else bounds.members]
    incarnations = ("0",) * len(members) if len(members) > 1 else ()
    membership = Membership("g", members, members[0], members, 1, 1, "", bounds.in_sync_min, incarnations=incarnations)
    state = _stored(ReplicaState(), membership)
    nodes = [Node(state, role=Master(members[0], membership, 0, 0, 0))]
    new = ReplicaState(is_only_member=False)
    nodes += [Node(new if bounds.grows else state) for _ in NAMES[1 : bounds.members]]
    nodes += [Node(new)] * bounds.spares
    return Group(membership, tuple(nodes), older_membership=membership if bounds.restores else None)


def _stored(state: ReplicaState, membership: Membership) -> ReplicaState:
    """What a node stores of a membership, without what only metaservers use: they know the newest membership here, and
    states would be more."""
    return replace(state.for_membership(membership), version=0, in_sync=(), loss_id="")


class Rules:
    """What can happen next in a group."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds

    def steps(self, group: Group) -> Iterator[tuple[str, Thunk]]:
        """Everything that can happen, with a line that says what."""
        bounds = self.bounds
        for number, node in enumerate(group.nodes):
            role = node.role
            if isinstance(role, Master):
                yield from self._master_steps(group, number, node, role)
            elif isinstance(role, Slave):
                yield from self._slave_steps(group, number, node, role)
            else:
                yield from self._waiting_steps(group, number, node)
            yield from self._membership_steps(group, number, node)
            if bounds.applies:
                yield from self._store_steps(group, number, node)
            if group.crashes < bounds.crashes:
                yield from self._crash_steps(group, number, node)
            if group.new_disks < bounds.new_disks:
                yield f"{number} gets a new disk", partial(self._new_disk, group, number)
            if name(number) not in group.membership.members:
                yield f"a metaserver adds {number} to the members", partial(self._add_member, group, number)
            elif group.removals < bounds.removals:
                yield f"an operator removes {number}", partial(self._remove_by_operator, group, number)
        for request in sorted(group.requests, key=repr):
            yield f"the database receives {_text(request)}", partial(self._change_membership, group, request)
        if group.membership.epoch < bounds.epochs:
            for number in range(len(group.nodes)):
                yield f"a metaserver promotes {number}", partial(self._promote, group, number)
        if group.operator_promotions < bounds.operator_promotions and group.known_membership.epoch < bounds.epochs:
            for number in range(len(group.nodes)):
                yield f"an operator promotes {number}", partial(self._promote_by_operator, group, number)
        if group.replacements < bounds.replacements:
            for number, other in permutations(range(len(group.nodes)), 2):
                yield f"an operator has {number} replaced by {other}", partial(self._replace, group, number, other)
        if old := leaving(group.membership):
            yield f"a metaserver removes {old}, which is replaced", partial(self._remove, group, NUMBERS[old])
        yield from self._database_steps(group)

    # --- a master --------------------------------------------------------------------------------------------------

    def _master_steps(self, group: Group, number: int, node: Node, master: Master) -> Iterator[tuple[str, Thunk]]:
        if group.values < self.bounds.values:
            yield f"{number} writes value {group.values}", partial(self._write, group, number)
        if node.synced < len(node.log):
            yield f"{number} syncs {len(node.log)}", partial(self._sync, group, number)
        answered = self._answerable(node, master) if master.membership.epoch >= group.operator_epoch else frozenset()
        if not answered <= group.acknowledged:
            yield f"{number} answers {sorted(answered)}", partial(self._answer, group, answered, master.membership)
        for key, (end, crc) in group.confirmations:
            slave, to, _, session = key
            if to != number:
                continue
            known = master.session_of(name(slave))
            if known is None or end > known.confirmed or known.number != session:
                yield (
                    f"{number} receives the confirmation of {slave}: {end}",
                    partial(self._receive_confirmation, group, number, slave, session, end, crc),
                )
        for slave in range(len(group.nodes)):
            if slave == number:
                continue
            if master.may_add(name(slave)) and name(slave) not in dict(master.requested):
                yield f"{number} requests to add {slave}", partial(self._request, group, number, slave, adds=True)
            if self.bounds.joins and master.may_join(name(slave)):
                joined = node._replace(role=master.with_joining(name(slave)))
                yield f"{number} waits for {slave}", partial(_put, group, number, joined)
            if self.bounds.joins and master.joining == name(slave):
                yield f"{number} waits for {slave} no longer", partial(self._wait_no_longer, group, number, slave)
            if name(slave) in master.membership.in_sync:
                removal = master.remove(name(slave))
                if removal not in group.requests:
                    yield (
                        f"{number} requests to remove {slave}",
                        partial(self._request, group, number, slave, adds=False),
                    )
                if self.bounds.resigns and group.membership.epoch < self.bounds.epochs:
                    for is_leaving in (False, True):
                        yield (
                            f"{number} resigns for {slave}, leaving: {is_leaving}",
                            partial(self._resign, group, number, slave, is_leaving),
                        )
        if group.known_membership.epoch == master.membership.epoch:
            yield f"{number} reads the membership", partial(self._learn, group, number)

    def _wait_no_longer(self, group: Group, number: int, slave: int) -> Group:
        node = group.nodes[number]
        assert isinstance(node.role, Master)
        return self._commit(group, number, node._replace(role=node.role.without_joining(name(slave))))

    def _write(self, group: Group, number: int) -> Group:
        node = group.nodes[number]
        log = (*node.log, (node.state.epoch, group.values))
        changed = group._replace(values=group.values + 1)
        node = node._replace(log=log)
        if self.bounds.applies:
            # A master's store runs ahead of its log.
            node = node._replace(applied=log)
        if not self.bounds.syncs_later:
            return self._with_synced(changed, number, node)
        return _put(changed, number, node)

    def _sync(self, group: Group, number: int) -> Group:
        return self._with_synced(group, number, group.nodes[number])

    def _with_synced(self, group: Group, number: int, node: Node) -> Group:
        assert isinstance(node.role, Master)
        end = len(node.log)
        return self._commit(group, number, node._replace(synced=end, role=node.role.synced(end)))

    def _commit(self, group: Group, number: int, node: Node) -> Group:
        """Put a master whose high watermark may have risen."""
        assert isinstance(node.role, Master)
        log, end = node.log, node.role.high_watermark
        if node.role.membership.epoch < group.operator_epoch:
            return _put(group, number, node)
        node = node._replace(known=max(node.known, end)) if self.bounds.applies else node
        if log[: min(end, len(group.committed))] != group.committed[:end]:
            raise Broken(f"{number} has {log[:end]} below its high watermark; {group.committed} was below one before")
        committed = log[:end] if end > len(group.committed) else group.committed
        return _put(group._replace(committed=committed), number, node)

    def _answerable(self, node: Node, master: Master) -> frozenset[int]:
        if not master.accepts_sends:
            return frozenset()
        return frozenset(value for _, value in node.log[: master.high_watermark])

    def _answer(self, group: Group, values: frozenset[int], membership: Membership) -> Group:
        for value in values - group.acknowledged:
            copies = sum(any(value == stored for _, stored in node.log[: node.synced]) for node in group.nodes)
            if copies < membership.in_sync_min_in_force - group.new_disks:
                raise Broken(f"value {value} is acknowledged with {copies} copies")
        return group._replace(acknowledged=group.acknowledged | values)

    def _receive_confirmation(self, group: Group, number: int, slave: int, session: int, end: int, crc: int) -> Group:
        node = group.nodes[number]
        master = node.role
        assert isinstance(master, Master)
        changed = master.confirmed(name(slave), session, end, crc, crc_at(node.log, end))
        return self._commit(group, number, node._replace(role=changed))

    def _request(self, group: Group, number: int, slave: int, *, adds: bool) -> Group:
        node = group.nodes[number]
        master = node.role
        assert isinstance(master, Master)
        if adds:
            master, request = master.add(name(slave))
        else:
            request = master.remove(name(slave))
        return _put(group, number, node._replace(role=master))._replace(requests=group.requests | {request})

    def _resign(self, group: Group, number: int, slave: int, is_leaving: bool) -> Group:
        node = group.nodes[number]
        master = node.role
        assert isinstance(master, Master)
        session = master.session_of(name(slave))
        if session is None or session.confirmed < len(node.log):
            raise Impossible
        membership = master.membership
        request = Resignation(
            membership.broker_group, master.node_id, membership.epoch, membership.promotion_id, membership.version,
            name(slave), 0, 0, is_leaving,
        )  # fmt: skip
        return group._replace(requests=group.requests | {request})

    def _learn(self, group: Group, number: int) -> Group:
        node = group.nodes[number]
        assert isinstance(node.role, Master)
        role, state = node.role.learned(group.known_membership), _stored(node.state, group.known_membership)
        return self._commit(group, number, node._replace(role=role, state=state))

    # --- a slave ---------------------------------------------------------------------------------------------------

    def _slave_steps(self, group: Group, number: int, node: Node, slave: Slave) -> Iterator[tuple[str, Thunk]]:
        master, to = self._master_of(group, slave)
        if master is not None and (slave.end < len(master.log) or self._states_more(master, slave)):
            yield f"{number} receives from {to}", partial(self._receive, group, number, to)
        if node.synced < len(node.log):
            yield f"{number} syncs {len(node.log)}", partial(self._slave_sync, group, number)
        elif self.bounds.shares_syncs:
            proof = node.synced if node.proof is None else None
            what = "syncs each entry" if proof is None else "shares syncs"
            yield f"{number} {what}", partial(_put, group, number, node._replace(proof=proof))
        end = slave.confirmable_end
        if end is not None and master is not None:
            key = (number, to, slave.epoch, slave.session)
            sent = dict(group.confirmations).get(key)
            if sent is None or sent[0] < end:
                yield f"{number} confirms {end}", partial(self._confirm, group, number, key, end)

    def _master_of(self, group: Group, slave: Slave) -> tuple[Node | None, int]:
        """The node that a slave follows, if it is still in that session."""
        for number, node in enumerate(group.nodes):
            role = node.role
            if isinstance(role, Master) and any(session.number == slave.session for session in role.sessions):
                return node, number
        return None, -1

    def _states_more(self, master: Node, slave: Slave) -> bool:
        assert isinstance(master.role, Master)
        return self.bounds.applies and master.role.high_watermark > slave.high_watermark

    def _receive(self, group: Group, number: int, to: int) -> Group:
        node, master = group.nodes[number], group.nodes[to]
        slave, role = node.role, master.role
        assert isinstance(slave, Slave)
        assert isinstance(role, Master)
        if self.bounds.shares_syncs and node.proof is None and node.synced < len(node.log) < len(master.log):
            raise Impossible
        end = min(slave.end + 1, len(master.log))
        watermark = role.high_watermark if self.bounds.applies else 0
        membership = role.membership
        slave = slave.received(membership.epoch, membership.promotion_id, slave.session, slave.end, end, watermark)
        node = node._replace(log=(*node.log, *master.log[len(node.log) : end]), role=slave)
        if self.bounds.applies:
            node = node._replace(known=max(node.known, applicable_end(slave)))
        if not self.bounds.syncs_later:
            node = node._replace(synced=end, role=slave.synced(end))
        return _put(group, number, node)

    def _slave_sync(self, group: Group, number: int) -> Group:
        node = group.nodes[number]
        assert isinstance(node.role, Slave)
        end = len(node.log)
        proof = None if node.proof is None else end
        return _put(group, number, node._replace(synced=end, role=node.role.synced(end), proof=proof))

    def _confirm(self, group: Group, number: int, key: tuple[int, int, int, int], end: int) -> Group:
        crc = crc_at(group.nodes[number].log, end)
        assert crc is not None
        found = dict(group.confirmations) | {key: (end, crc)}
        return group._replace(confirmations=tuple(sorted(found.items())))

    # --- a node that waits, and what each does about the membership ---------------------------------------------------------

    def _waiting_steps(self, group: Group, number: int, node: Node) -> Iterator[tuple[str, Thunk]]:
        if node.intent is not None:
            yield f"{number} completes its truncation to {node.intent}", partial(self._truncate, group, number)
            return
        membership = membership_of_only_member(group.membership.broker_group, name(number), node.state)
        if membership is not None:
            yield f"{number} serves alone", partial(self._serve_alone, group, number, membership)
        is_member = name(number) in group.known_membership.members
        for to, other in enumerate(group.nodes):
            if is_member and to != number and isinstance(other.role, Master):
                yield f"{number} requests to follow {to}", partial(self._follow, group, number, to)

    def _serve_alone(self, group: Group, number: int, membership: Membership) -> Group:
        node = group.nodes[number]
        end = len(node.log)
        node = node._replace(role=Master(name(number), membership, end, end, 0).synced(end))
        if self.bounds.applies:
            node = node._replace(applied=node.log)
        return self._commit(group, number, node)

    def _membership_steps(self, group: Group, number: int, node: Node) -> Iterator[tuple[str, Thunk]]:
        if node.intent is not None:
            return
        leads, follows = isinstance(node.role, Master), isinstance(node.role, Slave)
        membership = group.known_membership
        step = step_for(
            Identity(name(number), node.boot, node.incarnation), node.state, membership, leads=leads, follows=follows
        )
        if step is Step.ALARM:
            raise Broken(f"two promotions have epoch {membership.epoch}")
        if step is Step.LEAD:
            yield f"{number} leads epoch {membership.epoch}", partial(self._lead, group, number)
        elif step is Step.FOLLOW and membership.epoch > node.state.epoch:
            yield f"{number} learns of epoch {membership.epoch}", partial(self._fence, group, number)
        elif step is Step.SERVE_ALONE:
            yield f"{number} serves alone in epoch {membership.epoch}", partial(self._begin_alone, group, number)
        elif step is Step.SPARE and node.role is not None:
            yield f"{number} learns that it is no member", partial(self._leave, group, number)

    def _begin_alone(self, group: Group, number: int) -> Group:
        """It continues if it leads: what was not acknowledged is, once it is on its own disk."""
        node, membership = _following_ended(group.nodes[number]), group.known_membership
        state = _stored(node.state, membership)
        watermark = node.role.high_watermark if isinstance(node.role, Master) else min(node.known, len(node.log))
        master = Master(name(number), membership, len(node.log), node.synced, watermark)
        node = node._replace(state=state, role=master.synced(node.synced))
        if self.bounds.applies:
            node = node._replace(applied=node.log)
        return self._commit(group, number, node)

    def _leave(self, group: Group, number: int) -> Group:
        node = _following_ended(group.nodes[number])
        applied = node.checkpoint if isinstance(node.role, Master) else node.applied
        return _put(group, number, node._replace(role=None, applied=applied))

    def _lead(self, group: Group, number: int) -> Group:
        node, membership = _following_ended(group.nodes[number]), group.known_membership
        end = len(node.log)
        state = _stored(ReplicaState(), membership)
        watermark = min(node.known, end)
        master = Master(name(number), membership, end, node.synced, watermark)
        node = node._replace(state=state, role=master)
        if self.bounds.applies:
            # It serves when its whole log is below its high watermark; in the model it may apply all of it at once.
            node = node._replace(applied=node.log)
        return self._with_synced(group, number, node)

    def _fence(self, group: Group, number: int) -> Group:
        node = _following_ended(group.nodes[number])
        # A master's store may hold what its log will lose: it is opened again from the checkpoint.
        applied = node.checkpoint if isinstance(node.role, Master) else node.applied
        return _put(
            group, number, node._replace(state=_stored(node.state, group.known_membership), role=None, applied=applied)
        )

    def _follow(self, group: Group, number: int, to: int) -> Group:
        node, other = group.nodes[number], group.nodes[to]
        master = other.role
        assert isinstance(master, Master)
        if not master.may_follow(name(number), node.incarnation):
            raise Impossible
        own = LogEnd(chain_of(other.log), 0, len(other.log))
        theirs = LogEnd(chain_of(node.log), 0, len(node.log))
        answer = answer_follow(master.membership, own, name(number), node.state.epoch, node.state.promotion_id, theirs)
        if answer.result in (FollowResult.OTHER_PROMOTION, FollowResult.END_BEYOND):
            raise Broken(f"{number} requested to follow {to}: {answer.result.name}")
        if answer.result is not FollowResult.ACCEPTED:
            raise Impossible
        if answer.keep_to > common_length(node.log, other.log):
            raise Broken(f"{number} keeps {answer.keep_to} of {node.log}, {to} has {other.log}")
        if answer.keep_to < len(node.log):
            try:
                check_truncation(answer.keep_to, node.known, theirs.chain.last_epoch, node.state.epoch)
            except TruncationRejected:
                if not group.operator_promotions:
                    raise
                # It has what the operator gave up, and takes no further part.
                raise Impossible from None
            return self._begin_truncation(group, number, answer.keep_to)
        session = 1 + max(sessions_of(group), default=0)
        end = len(node.log)
        if self.bounds.shares_syncs:
            # Opening the log has synced what it keeps.
            node = node._replace(synced=end)
        slave = Slave(node.state.epoch, node.state.promotion_id, session, end, node.synced, node.known)
        changed = _put(group, number, node._replace(role=slave))
        changed = _put(changed, to, other._replace(role=master.followed(name(number), session, node.incarnation)))
        return self._confirm(changed, number, (number, to, slave.epoch, session), node.synced)

    def _begin_truncation(self, group: Group, number: int, to: int) -> Group:
        node = group.nodes[number]._replace(intent=to)
        changed = _put(group, number, node)
        return changed if self.bounds.applies else self._truncate(changed, number)

    def _truncate(self, group: Group, number: int) -> Group:
        node = group.nodes[number]
        assert node.intent is not None
        end = node.intent
        return _put(group, number, node._replace(log=node.log[:end], synced=min(node.synced, end), intent=None))

    # --- stores ------------------------------------------------------------------------------------------------------

    def _store_steps(self, group: Group, number: int, node: Node) -> Iterator[tuple[str, Thunk]]:
        role = node.role
        if isinstance(role, Slave) and len(node.applied) < applicable_end(role):
            yield f"{number} applies up to {applicable_end(role)}", partial(self._apply, group, number)
        if role is not None:
            end = self._checkpoint_end(node, role)
            if end > len(node.checkpoint):
                yield f"{number} writes a checkpoint at {end}", partial(self._checkpoint, group, number, end)

    def _apply(self, group: Group, number: int) -> Group:
        node = group.nodes[number]
        assert isinstance(node.role, Slave)
        return _put(group, number, node._replace(applied=node.log[: applicable_end(node.role)]))

    def _checkpoint_end(self, node: Node, role: Master | Slave) -> int:
        return min(len(node.applied), role.high_watermark, node.synced)

    def _checkpoint(self, group: Group, number: int, end: int) -> Group:
        node = group.nodes[number]
        return _put(group, number, node._replace(checkpoint=node.applied[:end]))

    # --- crashes, the database ---------------------------------------------------------------------------------------

    def _crash_steps(self, group: Group, number: int, node: Node) -> Iterator[tuple[str, Thunk]]:
        if not self.bounds.shares_syncs or not isinstance(node.role, Slave):
            yield f"{number} crashes", partial(self._crash, group, number, node.synced)
            return
        for end in range(node.synced, len(node.log) + 1):
            yield f"{number} crashes and keeps {end}", partial(self._crash, group, number, end)
            if end + 1 < len(node.log):
                yield (
                    f"{number} crashes and keeps {end}, and something behind it",
                    partial(self._crash, group, number, end, has_gap=True),
                )

    def _crash(self, group: Group, number: int, end: int, *, has_gap: bool = False) -> Group:
        """A node that starts again has `end` entries. What it has behind a gap claims that what is before it was
        synced."""
        node = group.nodes[number]
        if has_gap and node.proof is None:
            raise Broken(f"{number} takes {node.log[end:]}, which was never acknowledged, for damage")
        log, boot = node.log[:end], f"{group.crashes + 1}"
        node = node._replace(
            log=log, synced=end, role=None, applied=node.checkpoint, known=len(node.checkpoint), boot=boot, proof=None
        )
        return _put(group._replace(crashes=group.crashes + 1), number, node)

    def _new_disk(self, group: Group, number: int) -> Group:
        """The process ends, its disk is lost, and it starts with an empty one."""
        if not any(
            other != number and self._is_in_sync(group, other) and node.intent is None
            for other, node in enumerate(group.nodes)
        ):
            # Nothing keeps what was acknowledged.
            raise Impossible
        state = ReplicaState(is_only_member=False, is_new=True)
        incarnation = str(group.new_disks + 1)
        node = Node(state, incarnation=incarnation, boot=f"on disk {incarnation}")
        return _put(group._replace(new_disks=group.new_disks + 1), number, node)

    def _is_in_sync(self, group: Group, number: int) -> bool:
        """Whether a node is in the in-sync set with the disk that it has."""
        membership = group.known_membership
        incarnation = membership.incarnation_of(name(number))
        # A group that always had one member names no folder.
        is_named = incarnation == group.nodes[number].incarnation or (membership.members, incarnation) == (
            (name(number),),
            "",
        )
        return name(number) in membership.in_sync and is_named

    def _change_membership(self, group: Group, request: ChangeInSync | Resignation) -> Group:
        rest = group._replace(requests=group.requests - {request})
        try:
            group.membership.check_not_restored(group.known_membership.place)
            if isinstance(request, Resignation):
                boot = group.nodes[NUMBERS[request.successor]].boot
                membership = request.applied_to(group.membership, boot, str(group.membership.epoch + 1))
            else:
                membership = request.applied_to(group.membership)
        except ChangeRejected:
            return rest
        return self._with_membership(rest, membership)

    def _add_member(self, group: Group, number: int) -> Group:
        master = group.nodes[NUMBERS[group.membership.master]].incarnation
        try:
            group.membership.check_not_restored(group.known_membership.place)
        except ChangeRejected as rejected:
            raise Impossible from rejected
        try:
            changed = AddMember(*group.membership.place, name(number), master).applied_to(group.membership)
        except ChangeRejected as rejected:
            raise Impossible from rejected
        return self._with_membership(group, changed)

    def _remove_by_operator(self, group: Group, number: int) -> Group:
        return self._remove(group, number)._replace(removals=group.removals + 1)

    def _remove(self, group: Group, number: int) -> Group:
        """The disks of the remaining members may have been replaced, and the membership may not say so yet."""
        membership = group.membership
        change = RemoveMember(*membership.place, name(number), str(membership.epoch + 1))
        try:
            membership.check_not_restored(group.known_membership.place)
            changed = change.applied_to(membership)
        except ChangeRejected as rejected:
            raise Impossible from rejected
        return self._with_membership(group, changed)

    def _replace(self, group: Group, number: int, other: int) -> Group:
        membership = group.membership
        try:
            membership.check_not_restored(group.known_membership.place)
            changed = ReplaceMember(*membership.place, name(number), name(other)).applied_to(membership)
        except ChangeRejected as rejected:
            raise Impossible from rejected
        return self._with_membership(group, changed)._replace(replacements=group.replacements + 1)

    def _promote(self, group: Group, number: int) -> Group:
        """A metaserver may suspect a healthy master: any member of the set can be promoted at any time."""
        node = group.nodes[number]
        if isinstance(node.role, Master) and node.state.epoch == group.known_membership.epoch:
            raise Impossible
        epoch = chain_of(node.log).last_epoch
        reports = {name(number): MemberReport(node.state.epoch, epoch, node.synced, node.incarnation, node.boot)}
        chosen = choose(group.membership, group.known_membership.place, reports, str(group.membership.epoch + 1))
        if not isinstance(chosen, Promotion):
            raise Impossible
        return self._with_membership(group, chosen.applied_to(group.membership))

    def _promote_by_operator(self, group: Group, number: int) -> Group:
        """Whatever the master and the other members do, and whether the database was restored."""
        node, membership = group.nodes[number], group.membership
        promotion_id = str(group.known_membership.epoch + 1)
        change = UncleanPromotion(
            *membership.place, name(number), node.incarnation, node.boot, group.known_membership.place, promotion_id
        )
        try:
            changed = self._with_membership(group, change.applied_to(membership))
        except ChangeRejected as rejected:
            raise Impossible from rejected
        log = node.log[: node.synced if node.intent is None else min(node.synced, node.intent)]
        return changed._replace(
            operator_promotions=group.operator_promotions + 1,
            operator_epoch=changed.membership.epoch,
            acknowledged=group.acknowledged & {value for _, value in log},
            committed=group.committed[: common_length(log, group.committed)],
        )

    def _with_membership(self, group: Group, membership: Membership) -> Group:
        if membership.version != group.known_membership.version + 1:
            raise Broken(f"version {membership.version} follows {group.known_membership.version}")
        if not set(membership.in_sync) <= set(membership.members) or membership.master not in membership.in_sync:
            raise Broken(f"master {membership.master}, in sync {membership.in_sync}")
        return group._replace(membership=membership, newest=None)

    def _database_steps(self, group: Group) -> Iterator[tuple[str, Thunk]]:
        if group.restores < self.bounds.restores and group.older_membership not in (None, group.membership):
            yield "the database is restored from a backup", partial(self._restore, group)
        if group.restores < self.bounds.restores and group.older_membership != group.membership:
            yield "a backup of the database is made", partial(self._backup, group)
        if group.newest is not None:
            for number, node in enumerate(group.nodes):
                if isinstance(node.role, Master):
                    yield f"a metaserver recovers the membership from {number}", partial(self._recover, group, number)

    def _backup(self, group: Group) -> Group:
        return group._replace(older_membership=group.membership)

    def _restore(self, group: Group) -> Group:
        assert group.older_membership is not None
        return group._replace(
            membership=group.older_membership,
            newest=group.membership,
            older_membership=None,
            restores=group.restores + 1,
        )

    def _recover(self, group: Group, number: int) -> Group:
        role = group.nodes[number].role
        assert isinstance(role, Master)
        membership = recovered(group.membership, group.known_membership.place, role.membership, role.counted)
        if membership is None:
            raise Impossible
        return self._with_membership(group, membership)

    # --- what must hold ----------------------------------------------------------------------------------------------

    def check(self, group: Group) -> None:
        """Raises Broken for a state that must not be."""
        for member in group.known_membership.in_sync:
            node = group.nodes[NUMBERS[member]]
            if not self._is_in_sync(group, NUMBERS[member]):
                # It waits, or copies from a master that has all.
                continue
            end = node.synced if node.intent is None else min(node.synced, node.intent)
            lost = group.acknowledged - {value for _, value in node.log[:end]}
            if lost:
                raise Broken(f"{member} is in sync and lacks acknowledged values {sorted(lost)}")
        for number, node in enumerate(group.nodes):
            if isinstance(node.role, Master) and node.state.epoch == group.known_membership.epoch:
                lost = group.acknowledged - {value for _, value in node.log}
                if lost:
                    raise Broken(f"{number} serves and lacks acknowledged values {sorted(lost)}")
            if node.applied != node.log[: len(node.applied)] and node.intent is None:
                raise Broken(f"the store of {number} was made from {node.applied}, its log is {node.log}")
        leaders = [node.state.epoch for node in group.nodes if isinstance(node.role, Master)]
        if len(leaders) != len(set(leaders)):
            raise Broken(f"two masters lead one epoch: {leaders}")


def check_step(before: Group, after: Group) -> None:
    """Raises Broken for a change that must not be."""
    for number, (old, new) in enumerate(zip(before.nodes, after.nodes, strict=True)):
        if new.incarnation == old.incarnation and new.state.epoch < old.state.epoch:
            raise Broken(f"the epoch on the disk of {number} fell from {old.state.epoch} to {new.state.epoch}")
        if (before.crashes, before.new_disks) == (after.crashes, after.new_disks) and len(new.log) < min(
            old.known, len(old.log)
        ):
            raise Broken(f"{number} truncated {old.log} to {new.log}, below the high watermark {old.known}")


def sessions_of(group: Group) -> list[int]:
    """All numbers of sessions that anything refers to."""
    found = [session for (_, _, _, session), _ in group.confirmations]
    for node in group.nodes:
        if isinstance(node.role, Master):
            found += [session.number for session in node.role.sessions]
        elif isinstance(node.role, Slave):
            found.append(node.role.session)
    return found


class Impossible(Exception):
    """The step can't happen in this state."""


def _following_ended(node: Node) -> Node:
    """A slave that follows no longer has synced what it wrote if it had a proof, and has removed that."""
    return node if node.proof is None else node._replace(synced=len(node.log), proof=None)


def _put(group: Group, number: int, node: Node) -> Group:
    nodes = list(group.nodes)
    nodes[number] = node
    return group._replace(nodes=tuple(nodes))


def _text(request: ChangeInSync | Resignation) -> str:
    if isinstance(request, Resignation):
        return f"the resignation of {request.node_id} for {request.successor} (version {request.in_sync_version})"
    return f"{request.change.value} {request.member} of {request.node_id} (version {request.in_sync_version})"
