"""class Directory: the metaserver's memory: broker groups with their leases, nodes and routes. No I/O, time handed in."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from metaserver.choices import STATE_FROM_WIRE, STATE_ON_WIRE, GroupKind, GroupState, OperatorState
from metaserver.domain import BrokerGroup, Metadata, Node, SubjectRule
from metaserver.group_table import GroupTable
from metaserver.live_groups import HEARTBEAT_SECONDS, LEASE_SECONDS, LiveGroup, Registered
from metaserver.policies import Policies
from metaserver.registration_rules import lease_refusal, log_end_refusal
from metaserver.route_table import SUBJECT_GROUPS_MIN
from qmq.clock import Clock
from qmq.protocol.codes import BrokerRequestType
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse

if TYPE_CHECKING:
    from random import Random

UNAPPROVED_GROUPS_MAX = 100
"""Broker groups that may wait for approval at a time; registrations of further ones are refused."""
UNAPPROVED_CODE = "broker_group.unapproved"


class Directory(GroupTable):
    """What this metaserver knows now. `approves_new_groups`: whether a group of this name may serve without approval."""

    def __init__(
        self,
        clock: Clock,
        rng: "Random",
        *,
        subject_groups_min: int = SUBJECT_GROUPS_MIN,
        approves_new_groups: Callable[[str], bool] = lambda name: True,
    ) -> None:
        super().__init__(clock, rng, subject_groups_min)
        self._approves_new_groups = approves_new_groups
        self.rules: Mapping[str, SubjectRule] = {}
        """Replaced, never changed: other code keeps references to it."""
        self.paused: frozenset[tuple[str, str, str]] = frozenset()
        self.policies = Policies()

    def head(self) -> Metadata:
        """Everything except routes, as it is to be stored."""
        rows = tuple(replace(live.row, state=live.state) for live in self.groups.values())
        return Metadata(rows, tuple(self.nodes.values()), (), self.rules, self.paused, self._peers.has_live)

    def metadata(self) -> Metadata:
        """Everything, as it is to be stored."""
        return replace(self.head(), routes=tuple(self.routes.values()))

    def register(self, request: NodeRegisterRequest) -> Registered:
        """Apply a registration, a heartbeat or a deregistration of a node, or refuse it; a refused one changes nothing."""
        now = self._clock.monotonic()
        live = self.groups.get(request.broker_group)
        known = self.nodes.get(request.node_id)
        refusal = self._refusal(request, live, known, now)
        if refusal is not None:
            code, why = refusal
            return Registered(self._answer(live, why, code=code))
        # The node's, and that of the master that it replaces.
        known_nodes = (known, self.nodes.get(live.row.master) if live is not None else None)
        highest = max([request.log_end, *(node.log_end for node in known_nodes if node is not None)])
        is_goodbye = request.request_type == BrokerRequestType.OFFLINE
        reason = ""
        reported = GroupState.OFFLINE if is_goodbye else STATE_FROM_WIRE.get(request.state, GroupState.OFFLINE)
        first_state = self._first_operator_state(request.broker_group)
        operator_state = live.row.operator_state if live is not None else first_state
        if operator_state is OperatorState.UNAPPROVED:
            reported = GroupState.OFFLINE
        elif request.log_end < highest and not is_goodbye:
            reason = (
                f"its log ends at {request.log_end} but had reached {highest}: its data folder is an older copy, or empty;"
                " acknowledged messages are missing"
            )
            reported = GroupState.READ_ONLY
        node = Node(
            request.node_id,
            request.broker_group,
            request.role,
            request.address,
            request.admin_address,
            request.version,
            highest,
            known.log_end_version if known is not None else 0,
            self._clock.wall_ms(),
        )
        before = (live.row.master, live.state, live.node.address if live.node else "") if live is not None else None
        if live is None:
            kind = GroupKind(request.kind)
            row = BrokerGroup(
                request.broker_group, kind, reported, request.epoch, request.node_id, (request.node_id,),
                operator_state=operator_state, members=(request.node_id,),
            )  # fmt: skip
            live = self.groups[row.name] = LiveGroup(row, node, now, reported)
        else:
            row = replace(live.row, state=reported, master=request.node_id, in_sync=(request.node_id,))
            live.row, live.node, live.heartbeat_at, live.reported = row, node, now, reported
            live.is_expired = False
        live.has_heartbeat = live.received_here = True
        live.has_left, live.started_at_ms = is_goodbye, request.started_at_ms
        live.reason = reason
        self.nodes[node.node_id] = node
        changed_row = row if before != (row.master, live.state, node.address) else None
        live.policy_version = request.policy_version
        if operator_state is OperatorState.UNAPPROVED:
            live.reason = reason = f"broker group {row.name} is pending approval"
            answer = self._answer(live, f"{reason}: approve it in the console or with the API", code=UNAPPROVED_CODE)
        else:
            answer = self._answer(live, reason, reported)
        return Registered(answer, changed_row, node, reason or "registered")

    def _refusal(
        self, request: NodeRegisterRequest, live: LiveGroup | None, known: Node | None, now: float
    ) -> tuple[str, str] | None:
        """Why a registration is refused, as (code, reason). While a lease runs it belongs to one node id at one address."""
        if live is not None and live.row.kind.value != request.kind:
            return "node.kind_mismatch", f"group {live.row.name} is of kind {live.row.kind}, not {request.kind}"
        if live is not None and live.has_lease(now):
            bound = lease_refusal(request, live)
            if bound is not None:
                return bound
        if known is not None and known.broker_group != request.broker_group:
            own = self.groups.get(known.broker_group)
            if own is not None and own.row.master == known.node_id and own.has_lease(now):
                return "node.id_taken", f"node id {known.node_id} has a running lease in group {known.broker_group}"
        if live is None and self._first_operator_state(request.broker_group) is OperatorState.UNAPPROVED:
            waiting = sum(group.row.operator_state is OperatorState.UNAPPROVED for group in self.groups.values())
            if waiting >= UNAPPROVED_GROUPS_MAX:
                return "broker_group.too_many_unapproved", (
                    f"{waiting} broker groups are pending approval, the maximum; remove those that are not yours, or"
                    f" create group {request.broker_group} before its node starts"
                )
        return log_end_refusal(request.log_end, known, self._clock.wall_ms())

    def _first_operator_state(self, broker_group: str) -> OperatorState:
        """The operator state of a broker group that registers for the first time."""
        return OperatorState.NORMAL if self._approves_new_groups(broker_group) else OperatorState.UNAPPROVED

    def _answer(
        self, live: LiveGroup | None, reason: str, state: GroupState = GroupState.OFFLINE, *, code: str = ""
    ) -> NodeRegisterResponse:
        """What a node is answered; a `code` refuses it."""
        epoch = live.row.epoch if live is not None else 0
        # A metaserver that can't read the database while another one may does not know the newest policy.
        is_current = not self._peers.are_out_of_sight(self._clock.monotonic())
        policy = self.policies.version(live.row.name) if live is not None and not code and is_current else ""
        return NodeRegisterResponse(
            not code, reason, epoch, STATE_ON_WIRE[state], LEASE_SECONDS, HEARTBEAT_SECONDS, policy, code
        )
