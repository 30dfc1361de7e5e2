"""class Directory: the metaserver's memory: broker groups with their leases, nodes and routes. No I/O, time handed in."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from metaserver.choices import STATE_FROM_WIRE, STATE_ON_WIRE, GroupKind, GroupState, OperatorState
from metaserver.domain import BrokerGroup, Metadata, Node, SubjectRule
from metaserver.memory.group_table import GroupTable
from metaserver.memory.live_groups import HEARTBEAT_SECONDS, LEASE_SECONDS, LiveGroup, NodeReport, Registered
from metaserver.memory.membership_wishes import (
    is_replicating,
    joining,
    may_join,
    may_replace,
    replacement,
    spare_reason,
)
from metaserver.memory.policies import Policies
from metaserver.memory.registration_rules import Refusal, lease_refusal, log_end_refusal, slave_refusal
from metaserver.memory.route_table import SUBJECT_GROUPS_MIN
from metaserver.reports import StoredReport
from qmq.clock import Clock
from qmq.conversion import convert
from qmq.protocol.codes import BrokerRequestType, ReplicaRole
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq_node.replication.rules.membership import Membership

if TYPE_CHECKING:
    from random import Random

UNAPPROVED_GROUPS_MAX = 100
"""Broker groups that may wait for approval at a time; registrations of further ones are refused."""
UNAPPROVED_CODE = "broker_group.unapproved"
NEW_GROUP_COPIES = 2
"""How many members a new broker group of nodes with replication should have."""


class Directory(GroupTable):
    """What this metaserver knows now.

    Args:
        approves_new_groups: whether a group of this name may serve without approval.
        new_group_copies: how many members a new broker group of nodes with replication should have.
    """

    def __init__(
        self,
        clock: Clock,
        rng: "Random",
        *,
        subject_groups_min: int = SUBJECT_GROUPS_MIN,
        approves_new_groups: Callable[[str], bool] = lambda name: True,
        new_group_copies: int = NEW_GROUP_COPIES,
    ) -> None:
        super().__init__(clock, rng, subject_groups_min)
        self._approves_new_groups = approves_new_groups
        self._new_group_copies = new_group_copies
        self.rules: Mapping[str, SubjectRule] = {}
        """Replaced, never changed: other code keeps references to it."""
        self.paused: frozenset[tuple[str, str, str]] = frozenset()
        self.removed_folders: frozenset[tuple[str, str]] = frozenset()
        """As in `Metadata`."""
        self.policies = Policies()

    def head(self) -> Metadata:
        """Everything except routes, as it is to be stored."""
        groups = tuple(
            replace(
                live.group,
                state=live.state,
                membership=replace(live.membership, known_place=self.newest_place(name)),
            )
            for name, live in self.groups.items()
        )
        return Metadata(
            groups, tuple(self.nodes.values()), (), self.rules, self.paused, self._peers.has_live, self.removed_folders
        )

    def metadata(self) -> Metadata:
        """Everything, as it is to be stored."""
        return replace(self.head(), routes=tuple(self.routes.values()))

    def register(self, request: NodeRegisterRequest) -> Registered:
        """Apply a registration, a heartbeat or a deregistration of a node, or refuse it; a refused one changes nothing.

        A group that has a master keeps it, unless the change that is asked for in `Registered.wish` is stored.
        """
        now = self._clock.monotonic()
        live = self.groups.get(request.broker_group)
        known = self.nodes.get(request.node_id)
        refusal = self._refusal(request, live, known, now)
        if refusal is not None:
            code, why = refusal
            return Registered(self._answer(live, why, code=code))
        if live is not None and live.membership.master not in ("", request.node_id):
            return self._register_slave(request, live, known, now)
        return self._register_master(request, live, known, now)

    def _register_master(
        self, request: NodeRegisterRequest, live: LiveGroup | None, known: Node | None, now: float
    ) -> Registered:
        """Apply a registration of a group's master, or of the first node of a group, which becomes its only member."""
        is_goodbye = request.request_type == BrokerRequestType.OFFLINE
        reason = NO_REASON
        reported = GroupState.OFFLINE if is_goodbye else STATE_FROM_WIRE.get(request.state, GroupState.OFFLINE)
        answered: GroupState | None = None
        first_state = self._first_operator_state(request)
        operator_state = live.group.operator_state if live is not None else first_state
        node, is_older = self._reported_node(request, known)
        if is_older and live is not None and not live.is_replicated:
            # What it writes in its new epoch does not bring back what the only member before it had.
            node = replace(node, log_epoch=max(node.log_epoch, live.membership.epoch))
        if live is not None and live.is_replicated and not _serves(request):
            # Clients keep its address, or that of the master before it, until a member serves or the group is overdue.
            self._note(live, request, node, now)
            live.has_left, live.started_at_ms = is_goodbye, request.started_at_ms
            return Registered(self._answer(live, NO_REASON), None, node)
        if operator_state is OperatorState.UNAPPROVED:
            reported = GroupState.OFFLINE
        elif is_older and not is_goodbye:
            reason = Reason.of(Code.OLDER_FOLDER, end=request.log_end, highest=node.log_end)
            answered = GroupState.READ_ONLY
            reported = answered if reported is GroupState.READ_WRITE else reported
        before = None
        if live is None:
            group = self._first_group(request, reported, operator_state)
            live = self.groups[group.name] = LiveGroup(group, node, now, reported, is_stored=False)
        else:
            before = live.seen_by_clients
            group = replace(live.group, state=reported)
            if not group.membership.master:
                group = group.with_membership(_with_first_member(group.membership, request))
                before, live.is_stored = None, False
            live.group, live.node, live.heartbeat_at, live.reported = group, node, now, reported
            live.is_expired = False
        live.has_heartbeat = live.received_here = True
        live.has_left, live.started_at_ms = is_goodbye, request.started_at_ms
        live.reason = reason
        self._note(live, request, node, now)
        changed_group = group if before != live.seen_by_clients else None
        live.policy_version = request.policy_version
        if operator_state is OperatorState.UNAPPROVED:
            if self._is_of_removed(request):
                why = reason = Reason.of(Code.FOLDER_OF_REMOVED, group=group.name)
            else:
                reason = Reason.of(Code.PENDING_APPROVAL, group=group.name)
                why = Reason.of(Code.APPROVE, why=reason)
            live.reason = reason
            answer = self._answer(live, why, code=UNAPPROVED_CODE)
        else:
            answer = self._answer(live, reason, answered or reported)
        return Registered(answer, changed_group, node, reason or Reason.of(Code.REGISTERED))

    def _register_slave(
        self, request: NodeRegisterRequest, live: LiveGroup, known: Node | None, now: float
    ) -> Registered:
        """Apply a registration of another node than the group's master: of a slave, or of a node that is not a member."""
        group = live.group
        replaces = may_replace(group, request) and not live.has_lease(now)
        node, _ = self._reported_node(request, known, self.nodes.get(group.membership.master) if replaces else None)
        self._note(live, request, node, now)
        if group.operator_state is OperatorState.UNAPPROVED:
            return Registered(
                self._answer(live, Reason.of(Code.PENDING_APPROVAL, group=group.name), code=UNAPPROVED_CODE)
            )
        if request.node_id in group.membership.members:
            return Registered(self._answer(live, NO_REASON), None, node)
        wish = None
        if replaces:
            wish = replacement(
                group, request, self.new_promotion_id(), lambda: not live.has_lease(self._clock.monotonic())
            )
        elif may_join(group, request) and (incarnation := live.serving_incarnation):
            wish = joining(group, request.node_id, incarnation)
        if is_replicating(request):
            return Registered(self._answer(live, spare_reason(group, request)), None, node, wish=wish)
        why = Reason.of(Code.REPLACEMENT_NOT_STORED, group=group.name, master=group.membership.master)
        return Registered(self._answer(live, why, code="node.group_taken"), wish=wish)

    def _reported_node(
        self, request: NodeRegisterRequest, known: Node | None, replaced: Node | None = None
    ) -> tuple[Node, bool]:
        """The node with the highest place that its log had, or that of the node that it replaces; whether it is below that now."""
        place = (max(1, request.log_epoch), request.log_end)
        epoch, end = max([place, *(node.log_place for node in (known, replaced) if node is not None)])
        node = convert(
            Node,
            request,
            log_end=end,
            log_end_version=known.log_end_version if known is not None else 0,
            reported_at_ms=self._clock.wall_ms(),
            log_epoch=epoch,
            report=self._report(request),
        )
        return node, place < (epoch, end)

    def _report(self, request: NodeRegisterRequest) -> dict[str, Any]:
        """What is stored of a node's part in replication."""
        if not is_replicating(request) and request.pending_messages < 0:
            return {}
        is_known = request.broker_group in self.groups
        place = self.newest_place(request.broker_group) if is_known else (request.epoch, 0)
        return StoredReport.of(request, place).encoded()

    def _note(self, live: LiveGroup, request: NodeRegisterRequest, node: Node, now: float) -> None:
        """Keep a node's report. Those of nodes that are not members are dropped when they are silent."""
        master, members = live.membership.master, live.membership.members
        for name in [name for name, report in live.reports.items() if name not in members and not report.is_live(now)]:
            del live.reports[name]
            live.disconnected_at.pop(name, None)
        live.disconnected_at.pop(request.node_id, None)
        has_lost_data = (max(1, request.log_epoch), request.log_end) < node.log_place
        live.reports[request.node_id] = NodeReport(request, now, has_lost_data)
        known = self.nodes.get(request.node_id)
        if request.node_id == master and (known is None or known.sync_address != node.sync_address):
            self._changed_memberships[live.group.name] = None
        if request.node_id in members:
            live.learn_reported_membership(request)
            waits = request.replica_role is ReplicaRole.WAITING
            has_problem = bool(request.limitations or (request.problems and not waits))
            live.fitness.reported(request.node_id, has_problem=has_problem, now=now)
            if _serves(request) and request.epoch == live.membership.epoch:
                live.fitness.served(request.node_id)
        self.nodes[node.node_id] = node

    def _first_group(
        self, request: NodeRegisterRequest, state: GroupState, operator_state: OperatorState
    ) -> BrokerGroup:
        """A new group. Groups of nodes without replication have one copy, until an operator raises that."""
        copies = self._new_group_copies if is_replicating(request) else 1
        node = (request.node_id,)
        membership = Membership(
            request.broker_group, node, request.node_id, node, request.epoch, 0, request.promotion_id, copies=copies
        )
        return BrokerGroup(GroupKind(request.kind), state, membership, operator_state)

    def _refusal(
        self, request: NodeRegisterRequest, live: LiveGroup | None, known: Node | None, now: float
    ) -> Refusal | None:
        """Why a registration is refused, as (code, reason). While a lease runs it belongs to one node id at one address."""
        if live is not None and live.group.kind.value != request.kind:
            return "node.kind_mismatch", Reason.of(
                Code.OTHER_KIND, group=live.group.name, kind=live.group.kind.value, reported=request.kind
            )
        bound = None
        if live is not None and live.membership.master == request.node_id:
            if live.is_replicated and not is_replicating(request):
                return "node.group_taken", Reason.of(Code.UPGRADE_MASTER, group=live.group.name)
            bound = lease_refusal(request, live) if live.has_lease(now) else None
        elif live is not None and live.membership.master:
            bound = slave_refusal(request, live, now)
        if bound is not None:
            return bound
        if known is not None and known.broker_group != request.broker_group:
            own = self.groups.get(known.broker_group)
            if own is not None and own.is_replicated and known.node_id in own.membership.members:
                return "node.id_taken", Reason.of(Code.MEMBER_ELSEWHERE, node=known.node_id, group=known.broker_group)
            if own is not None and own.is_running(known.node_id, now):
                return "node.id_taken", Reason.of(Code.LEASE_ELSEWHERE, node=known.node_id, group=known.broker_group)
        if (
            live is not None
            and live.group.operator_state is not OperatorState.UNAPPROVED
            and self._is_of_removed(request)
        ):
            return "node.removed_folder", Reason.of(
                Code.FOLDER_OF_NAMESAKE, node=request.node_id, group=live.group.name
            )
        if live is None and self._first_operator_state(request) is OperatorState.UNAPPROVED:
            waiting = sum(live.group.operator_state is OperatorState.UNAPPROVED for live in self.groups.values())
            if waiting >= UNAPPROVED_GROUPS_MAX:
                return "broker_group.too_many_unapproved", Reason.of(
                    Code.TOO_MANY_UNAPPROVED, count=waiting, group=request.broker_group
                )
        return log_end_refusal(request.log_end, known, self._clock.wall_ms())

    def _first_operator_state(self, request: NodeRegisterRequest) -> OperatorState:
        """The operator state of a broker group that registers for the first time."""
        may_serve = self._approves_new_groups(request.broker_group) and not self._is_of_removed(request)
        return OperatorState.NORMAL if may_serve else OperatorState.UNAPPROVED

    def _is_of_removed(self, request: NodeRegisterRequest) -> bool:
        """Whether the node has a data folder of a group that was removed with the loss of its messages."""
        return (request.broker_group, request.incarnation) in self.removed_folders

    def _answer(
        self, live: LiveGroup | None, reason: Reason, state: GroupState = GroupState.OFFLINE, *, code: str = ""
    ) -> NodeRegisterResponse:
        """What a node is answered; a `code` refuses it."""
        epoch = live.membership.epoch if live is not None else 0
        # A metaserver that can't read the database while another one may does not know the newest policy.
        now = self._clock.monotonic()
        is_current = not self._peers.are_out_of_sight(now)
        policy = self.policies.version(live.group.name) if live is not None and not code and is_current else ""
        membership = self.membership_on_wire(live) if live is not None and not code else None
        return NodeRegisterResponse(
            not code, reason, epoch, STATE_ON_WIRE[state], LEASE_SECONDS, HEARTBEAT_SECONDS, policy, code, membership,
            self._peers.database_is_away(now),
        )  # fmt: skip


def _with_first_member(membership: Membership, request: NodeRegisterRequest) -> Membership:
    """The membership of a group that an operator announced, with its first node as its only member."""
    node = (request.node_id,)
    return replace(
        membership,
        members=node,
        master=request.node_id,
        in_sync=node,
        epoch=max(membership.epoch, request.epoch),
        version=membership.version + 1,
        promotion_id=request.promotion_id,
    )


def _serves(request: NodeRegisterRequest) -> bool:
    """Whether the master of a group with several members serves clients. One that was promoted, or restarted, does not yet."""
    is_goodbye = request.request_type == BrokerRequestType.OFFLINE
    return request.replica_role is ReplicaRole.MASTER and not is_goodbye
