"""class Member: the role of a node in its broker group, as the group's membership says: it waits, follows, or leads."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from qmq.errors import LogError
from qmq.protocol.codes import ReplicaRole
from qmq.protocol.group_memberships import GroupMembership
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq.supervisor import Supervisor
from qmq_node.member.role_shell import MemberShell
from qmq_node.process.life import LifeEnded
from qmq_node.process.role_changes import RoleChanges
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.newest_membership import NewestMembership
from qmq_node.replication.rules.membership import Membership
from qmq_node.replication.rules.promotion import OTHER_FOLDER
from qmq_node.replication.rules.roles import ReplicaState, Step, step_for
from qmq_node.replication.slave.follow_outcomes import Diverged, LogCopied, MustCopy, ReplicationAlarm
from qmq_node.replication.slave.follower import Follower

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(eq=False, repr=False)
class Member:
    """Brings the node into the role that the newest membership gives it."""

    node_id: str
    memberships: NewestMembership
    _shell: MemberShell
    _supervisor: Supervisor
    _role_changes: RoleChanges
    _role: ReplicaRole = field(default=ReplicaRole.WAITING, init=False)
    reason: Reason = field(default=Reason.of(Code.NO_MEMBERSHIP), init=False)
    """Why it has this role; "" if that is what it should have."""
    refusal: Reason = field(default=NO_REASON, init=False)
    """Why it accepts no messages although it serves; "" if it does."""
    leading: Leading | None = field(default=None, init=False)
    follower: Follower | None = field(default=None, init=False)
    _address: str = field(default="", init=False)
    """Of the master that is followed."""
    _task: "asyncio.Task[None] | None" = field(default=None, init=False)
    """Follows, or waits for the epoch to be confirmed."""
    is_alone: bool = field(default=False, init=False)
    """Whether the node serves as the only member."""
    changes_log: bool = field(default=False, init=False)
    """A change of the log was begun, after which the node opens it again. The next life does what the membership says."""
    _is_closed: bool = field(default=False, init=False)
    on_role: Callable[[], None] = field(default=lambda: None, init=False)
    """Called when the node has another role."""

    def __post_init__(self) -> None:
        self._role_changes.became(self._role)

    @property
    def role(self) -> ReplicaRole:
        """The role that the node has now."""
        return self._role

    @role.setter
    def role(self, role: ReplicaRole) -> None:
        is_other, self._role = role is not self._role, role
        self._role_changes.became(role)
        if is_other:
            self.on_role()

    @property
    def membership(self) -> GroupMembership | None:
        """The newest membership; None: no metaserver has sent one yet."""
        return self.memberships.value

    def learned(self, membership: GroupMembership) -> None:
        """A metaserver sent the membership. An older one than known changes nothing."""
        self.memberships.learned(membership)

    def explained(self, reason: Reason) -> None:
        """Show a metaserver's reason for not making this node a member; "" changes nothing."""
        if self.role is ReplicaRole.SPARE and reason:
            self.reason = reason

    def serves_alone(self) -> None:
        """The node serves as the only member, as far as it knows."""
        self.is_alone, self.role, self.reason = True, ReplicaRole.MASTER, NO_REASON

    def newer_epoch(self, epoch: int) -> None:
        """A slave knows a newer epoch than the one that this node leads."""
        self._step_down(Reason.of(Code.NEWER_EPOCH, epoch=epoch))

    async def run(self) -> None:
        """Follow the membership until cancelled."""
        while True:
            await self.memberships.changed.wait()
            self.memberships.changed.clear()
            if self._is_closed or self.changes_log:
                continue
            if self.membership is not None and (self.role is not ReplicaRole.FAILED or self._is_promoted_with_loss):
                await self._do(self.membership)

    @property
    def _is_promoted_with_loss(self) -> bool:
        """Whether an operator promoted this process, and accepted the loss of what is damaged, by which it may have failed."""
        sent = self.membership
        if sent is None or not self._shell.has_own_damage:
            return False
        membership, identity = Membership.of(sent), self._shell.identity
        is_new = membership.epoch > self._shell.replica_state.epoch
        return (
            is_new and membership.master == self.node_id and identity.may_lead(membership) and membership.accepts_loss
        )

    async def leave(self) -> None:
        """Before the node stops: have the master of a slave stop waiting for it; in limited time."""
        if self.follower is not None:
            await self.follower.leave()

    async def close(self) -> None:
        """End what runs: sessions with slaves, or the one with the master. A membership that arrives later changes nothing."""
        self._is_closed = True
        await self._stop()
        if self.leading is not None:
            await self.leading.close()

    async def _do(self, sent: GroupMembership) -> None:
        membership, state = Membership.of(sent), self._shell.replica_state
        leads = self.leading is not None or self.is_alone
        step = step_for(self._shell.identity, state, membership, leads=leads, follows=self.follower is not None)
        if step is Step.IGNORE:
            return
        if step is Step.STAY and (leads or sent.master_sync_address in ("", self._address)):
            await self._stay(membership)
            return
        if self.is_alone:
            await self._leave_alone(membership, step)
            return
        if self.leading is not None and step is Step.SERVE_ALONE:
            await self._continue_alone(membership, self.leading)
            return
        if self.leading is not None:
            self._step_down(Reason.of(Code.OTHER_LEADS, node=membership.master, epoch=membership.epoch))
            return
        await self._stop()
        if step is Step.ALARM:
            self._fail(_two_masters(membership, state))
        elif step is Step.SPARE:
            self.role, self.reason = ReplicaRole.SPARE, _not_member(membership)
        elif step is Step.WAIT:
            self.role, self.reason = ReplicaRole.WAITING, _why_waiting(self.node_id, state, membership)
        elif step in (Step.SERVE_ALONE, Step.LEAD) and state.copying is not None and not state.copying.is_usable:
            self.role = ReplicaRole.WAITING
            self.reason = Reason.of(Code.COPY_INCOMPLETE, epoch=membership.epoch)
        elif (problem := self._shell.log_problem) and not (
            step in (Step.SERVE_ALONE, Step.LEAD) and self._shell.may_lead_damaged(membership)
        ):
            await self._replace_log(membership, sent.master_sync_address, problem)
        elif step is Step.SERVE_ALONE:
            await self._serve_alone(membership)
        elif problem := self._shell.replication_problem():
            self._fail(problem)
        elif step is Step.LEAD:
            await self._lead(membership)
        else:
            await self._follow(membership, sent.master_sync_address)

    async def _leave_alone(self, membership: Membership, step: Step) -> None:
        """The node serves as the only member, and the membership says otherwise: others may have the newest messages of
        the group."""
        state = self._shell.replica_state
        if step in (Step.SPARE, Step.ALARM):
            # It accepts nothing more. What it has stored is served to consumers: no other node may have that.
            problem = _not_member(membership) if step is Step.SPARE else _two_masters(membership, state)
            if problem != self.refusal:
                logger.error("node %s accepts no messages: %s", self.node_id, problem)
            self.reason = self.refusal = problem
            return
        if step is Step.SERVE_ALONE:
            await self._shell.store_replica_state(state.for_membership(membership))
            self._shell.end(LifeEnded(f"epoch {membership.epoch} of the broker group begins"))
            return
        await self._shell.store_replica_state(replace(state, is_only_member=False))
        self._step_down(Reason.of(Code.NOT_ALONE, members=", ".join(membership.members)))

    def _step_down(self, why: Reason) -> None:
        """End as master. What waits for slaves is not answered any more; the next life does what the membership says."""
        self.role, self.reason = ReplicaRole.STEPPING_DOWN, why
        self._shell.end(LifeEnded(why))

    async def _stay(self, membership: Membership) -> None:
        if self.is_alone:
            self.reason = self.refusal = NO_REASON
            if len(membership.members) > 1:
                await self._begin_replicating(membership)
            return
        await self._shell.store_replica_state(self._shell.replica_state.for_membership(membership))
        if self.leading is not None:
            self.leading.learned(membership)
        elif self.follower is not None:
            self._show_slave()

    async def _follow(self, membership: Membership, address: str) -> None:
        if not address:
            self.role, self.reason = ReplicaRole.WAITING, Reason.of(Code.ADDRESS_UNKNOWN, master=membership.master)
            return
        await self._shell.store_replica_state(self._shell.replica_state.for_membership(membership))
        self.follower = self._shell.new_follower(
            lambda: _why_kept(self.node_id, self.membership or membership, membership.master, address)
        )
        self._address = address
        self.follower.steps.on_change = self._show_slave
        self._show_slave()
        self._task = self._supervisor.background("following", self._run_follower(self.follower, address))

    def _show_slave(self) -> None:
        """Set the role of a node that follows."""
        assert self.membership is not None
        assert self.follower is not None
        if self.follower.copy.is_copying:
            self.role, self.reason = ReplicaRole.COPYING, Reason.of(Code.COPIES_MASTER)
        else:
            self.role = ReplicaRole.IN_SYNC if self.node_id in self.membership.in_sync else ReplicaRole.FOLLOWING
            self.reason = NO_REASON

    async def _run_follower(self, follower: Follower, address: str) -> None:
        try:
            await follower.run(address)
        except Diverged as diverged:
            # The new master does not have what is removed; it was never acknowledged.
            to = diverged.truncation
            self.role, self.reason = ReplicaRole.WAITING, Reason.of(Code.TRUNCATED, end=to.end)
            why = f"the log was truncated to offset {to.end}, which begins epoch {to.epoch}"
            await self._change_log(self._shell.truncate(to), why)
        except LogCopied as copied:
            self._shell.end(LifeEnded(str(copied)))
        except MustCopy as error:
            # A newer membership has this node follow again.
            self.follower = None
            await self._copy_when_possible(address, str(error))
        except ReplicationAlarm as error:
            self._fail(Reason(str(error)))

    async def _replace_log(self, membership: Membership, address: str, problem: str) -> None:
        """Replace a log that lacks acknowledged bytes once the set is without this node and the master's state can be read.

        Until then the log stays: it may be the best copy that is left, and an operator may need to know what it has.
        """
        self.role, kept = ReplicaRole.WAITING, _why_kept(self.node_id, membership, membership.master, address)
        self.reason = Reason.of(Code.BECAUSE, problem=problem, why=kept)
        if membership.master != self.node_id and self._shell.may_be_repaired():
            # Other members answer in the epoch that this one has on disk.
            await self._shell.store_replica_state(self._shell.replica_state.for_membership(membership))
            self.reason = Reason.of(Code.REPAIRS_LOG, problem=problem)
        elif not kept:
            await self._shell.store_replica_state(self._shell.replica_state.for_membership(membership))
            self._task = self._supervisor.background("following", self._copy_when_possible(address, problem))

    async def _copy_when_possible(self, address: str, problem: str) -> None:
        def explain(why: str) -> None:
            self.reason = Reason.of(Code.COPIES_LATER, problem=problem, why=why)

        self.role = ReplicaRole.WAITING
        explain(Reason.of(Code.NO_ANSWER))
        await self._shell.wait_for_state(address, explain)
        logger.error("node %s replaces its log by a copy of the master's: %s", self.node_id, problem)
        # The master knows that the set is without this node. The next life replaces the log.
        self.role, self.reason = ReplicaRole.COPYING, Reason.of(Code.LOG_REPLACED, why=problem)
        await self._change_log(self._shell.discard_log(), self.reason)

    async def _change_log(self, change: Awaitable[None], why: str) -> None:
        """Change the log of a slave, then end this life, with an error of the disk if there is one."""
        self.changes_log = True
        try:
            await change
        except (LogError, OSError) as error:
            self._shell.end(error)
        else:
            self._shell.end(LifeEnded(why))

    async def _lead(self, membership: Membership) -> None:
        self.role, self.reason = ReplicaRole.PROMOTED, Reason.of(Code.FIRST_COMMIT)
        await self._shell.store_replica_state(self._shell.replica_state.for_membership(membership))
        self.leading, offset = await self._shell.begin_epoch(membership)
        self._task = self._supervisor.background("promotion", self._serve(offset))

    async def _serve_alone(self, membership: Membership) -> None:
        await self._shell.store_replica_state(self._shell.replica_state.for_membership(membership))
        await self._shell.begin_alone(membership)
        await self._shell.serve_clients()
        self.serves_alone()

    async def _begin_replicating(self, membership: Membership) -> None:
        """Another node became a member. This one still has everything that was acknowledged, so it stays master of its epoch."""
        problem = self._shell.replication_problem()
        if problem:
            self.reason = Reason.of(Code.NO_SLAVES, why=problem)
            return
        await self._shell.store_replica_state(self._shell.replica_state.for_membership(membership))
        self.leading = await self._shell.begin_replicating(membership)
        self.is_alone, self.reason = False, NO_REASON
        logger.info("node %s is the master of %s from now on", self.node_id, ", ".join(membership.members))

    async def _continue_alone(self, membership: Membership, leading: Leading) -> None:
        """All slaves were removed: this node has everything that was acknowledged, and leads the next epoch without a pause."""
        await self._shell.store_replica_state(self._shell.replica_state.for_membership(membership))
        await self._shell.continue_alone(leading)
        self.leading, self.is_alone, self.reason = None, True, NO_REASON
        logger.warning("node %s is the only member of its broker group from now on", self.node_id)

    async def _serve(self, offset: int) -> None:
        await self._shell.wait_confirmed(offset)
        await self._shell.serve_clients()
        self.role, self.reason = ReplicaRole.MASTER, NO_REASON

    async def _stop(self) -> None:
        """End following, or waiting for the epoch to be confirmed."""
        if self._task is not None:
            await self._supervisor.cancel(self._task)
            self._task = None
        self.follower = None

    def _fail(self, reason: Reason) -> None:
        """Take no further part until an operator has decided."""
        logger.critical("node %s takes no part in replication: %s", self.node_id, reason)
        self.role, self.reason, self.follower = ReplicaRole.FAILED, reason, None


def _not_member(membership: Membership) -> Reason:
    return Reason.of(Code.NOT_AMONG, members=", ".join(membership.members))


def _two_masters(membership: Membership, state: ReplicaState) -> Reason:
    if membership.promotion_id == state.promotion_id:
        return Reason.of(Code.ALSO_LEADS, node=membership.master, epoch=membership.epoch)
    return Reason.of(
        Code.TWO_PROMOTIONS, epoch=membership.epoch, one=str(membership.promotion_id), other=str(state.promotion_id)
    )


def _why_kept(node_id: str, membership: Membership | GroupMembership, master: str, address: str) -> Reason:
    """Return why the log of a slave may not be replaced yet, and it may not give up, whatever its master says; "" if it may.

    A program at the address of a master that is gone can't change the membership. Where the newest membership names the
    master and is without this node in its in-sync set, other members have everything that was acknowledged.
    """
    if master != membership.master:
        return Reason.of(Code.OTHER_MASTER, node=master)
    if master == node_id:
        return Reason.of(Code.CANNOT_LEAD, epoch=membership.epoch)
    if node_id in membership.in_sync or not address:
        return Reason.of(Code.LOG_STAYS, master=master)
    return NO_REASON


def _why_waiting(node_id: str, state: ReplicaState, membership: Membership) -> Reason:
    if membership.master != node_id:
        return Reason.of(Code.NO_MASTER)
    if membership.members == (node_id,) and membership.epoch > state.epoch:
        return OTHER_FOLDER
    return Reason.of(Code.LED if state.epoch == membership.epoch else Code.WAS_PROMOTED, epoch=membership.epoch)
