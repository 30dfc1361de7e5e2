"""/broker-groups/ and /nodes/."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import PartFilter
from api.generics import ListView, action
from api.live_pages import LivePages
from api.serializers import broker_groups as shapes
from console.accounts.roles import Right
from console.cluster.members import remove_member, set_copies
from console.cluster.stats import node_stats
from console.cluster.switch_over import switch_over
from console.jobs.rebalance import waiting_on
from console.placement.route_cache import ROUTES
from console.reports import overview
from console.reports.node_stop import stop_effect
from metaserver import queries
from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.errors import NotFound
from metaserver.services import broker_groups as service
from metaserver.services import members, removals
from metaserver.services.changes import Change
from metaserver.services.member_changes import replace_member

_BY_NUMBER = LivePages(("node_id",), overview.NODE_NUMBERS)


class BrokerGroupsView(ListView):
    """List broker groups and delay groups."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_CLUSTER}
    serializer_class = shapes.BrokerGroupRow
    bodies = {"POST": shapes.NewBrokerGroup}
    rows = staticmethod(queries.broker_groups)
    filters = {
        "search": PartFilter("name", label="words that occur in the name"),
        "kind": django_filters.ChoiceFilter(choices=[(k.value, k.value) for k in GroupKind]),
        "reported_state": django_filters.ChoiceFilter("state", choices=[(s.value, s.value) for s in GroupState]),
        "operator_state": django_filters.ChoiceFilter(choices=[(s.value, s.value) for s in OperatorState]),
    }
    ordering_fields = ("name", "kind", "reported_state", "operator_state", "master", "created_at", "updated_at")
    ordering_paths = {"reported_state": "state"}
    ordering = ("name",)

    def post(self, request: Request) -> Change:
        """Create a broker group. It is offline until its first node registers."""
        values = self.body()
        return service.announce_group(
            values["name"], GroupKind(values["kind"]), values.get("description", ""), **self.arguments
        )

    def context(self) -> dict[str, Any]:
        return {"served": ROUTES.served_by_each()}


class BrokerGroupView(ApiView):
    """One broker group."""

    serializer_class = shapes.BrokerGroupDetail
    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_CLUSTER, "DELETE": Right.CHANGE_CLUSTER}
    bodies = {"PATCH": shapes.BrokerGroupChange}

    def get(self, request: Request, name: str) -> Response:
        """Return one broker group."""
        found: Any = service.BROKER_GROUP.one(queries.broker_groups().filter(name=name), name)
        found.states, found.history = members.members(name), queries.role_history(name)
        found.waiting = waiting_on(name)
        return self.one(found, served=ROUTES.served_by_each())

    def patch(self, request: Request, name: str) -> Change:
        """Update the description of a broker group."""
        return service.describe_group(name, self.body()["description"], **self.versioned_arguments)

    @extend_schema(operation_id="broker_groups_remove")
    def delete(self, request: Request, name: str) -> Change:
        """Remove a broker group that serves no subjects and whose nodes are stopped."""
        return service.remove_group(name, **self.versioned_arguments)


ApproveView = action(
    Right.CHANGE_CLUSTER,
    lambda view, name: service.approve_group(name, **view.versioned_arguments),
    "Approve a broker group that has registered for the first time, so that it goes into service.",
)


def _set_state(view: ApiView, name: str, *, state: OperatorState) -> Change:
    return service.set_operator_state(name, state, **view.versioned_arguments)


ReadOnlyView = action(
    Right.CHANGE_CLUSTER,
    partial(_set_state, state=OperatorState.READ_ONLY),
    "Set a broker group to read-only: it accepts no new messages, stored messages are still delivered, and its subjects stay.",
)
DrainView = action(
    Right.CHANGE_CLUSTER,
    partial(_set_state, state=OperatorState.DRAINING),
    "Drain a broker group: it accepts no new messages, its subjects move to other groups, and stored messages are kept until"
    " they are consumed.",
)
WritableView = action(
    Right.CHANGE_CLUSTER,
    partial(_set_state, state=OperatorState.NORMAL),
    "Return a read-only or draining broker group to service.",
)


def _set_copies(view: ApiView, name: str) -> Change:
    values = view.body()
    return set_copies(name, values, values.pop("remove"), **view.versioned_arguments)


def _replace_member(view: ApiView, name: str) -> Change:
    values = view.body()
    return replace_member(name, values["node"], values["replacement"], **view.versioned_arguments)


RemoveMemberView = action(
    Right.CHANGE_CLUSTER,
    lambda view, name: remove_member(name, view.body()["node"], **view.versioned_arguments),
    "Remove a member of a broker group. The master switches over first. The data folder of the node stays as it is.",
    body=shapes.MemberToRemove,
)
ReplaceMemberView = action(
    Right.CHANGE_CLUSTER,
    _replace_member,
    "Have a member of a broker group replaced by another node while the group serves. Metaservers complete it.",
    body=shapes.MemberToReplace,
)
CopiesView = action(
    Right.CHANGE_CLUSTER,
    _set_copies,
    "Set how many members a broker group should have, how many of them have to be in sync, and which one is promoted first;"
    " members can be removed by that.",
    body=shapes.Copies,
    operation_id="broker_groups_set_copies",
)


def _switch_over(view: ApiView, name: str) -> Change:
    values = view.body()
    return switch_over(name, values["to"], rehearsal=values["rehearsal"], **view.versioned_arguments)


SwitchOverView = action(
    Right.CHANGE_CLUSTER,
    _switch_over,
    "Have a slave of a broker group become its master. Requests of clients wait meanwhile, and none is rejected.",
    body=shapes.SwitchOver,
)


def _promote(view: ApiView, name: str) -> Change:
    values = view.body()
    return members.promote(name, values["node"], values["accept_loss_bytes"], **view.versioned_arguments)


PromoteView = action(
    Right.CHANGE_CLUSTER,
    _promote,
    "Promote a member of a broker group that may lack acknowledged messages, or after the database was restored from a backup."
    " The bytes at risk have to be stated exactly; a dry run returns them in `after`.",
    body=shapes.Promotion,
)


RemoveLostView = action(
    Right.CHANGE_CLUSTER,
    lambda view, name: removals.remove_lost_group(name, view.body()["accept_loss"], **view.versioned_arguments),
    "Remove a broker group whose nodes have sent no heartbeat for a minute, although it serves subjects or has messages. The loss"
    " has to be stated exactly; a dry run returns it in `after`: pending messages of a delay group, bytes of a broker group.",
    body=shapes.LostGroup,
)


class NodesView(ListView):
    """List nodes with their latest numbers. When they are ordered by a number, nodes without a measurement come last."""

    serializer_class = shapes.NodeNumbersRow
    rows = staticmethod(queries.nodes)
    filters = {
        "search": PartFilter("node_id", label="words that occur in the node ID"),
        "broker_group": django_filters.CharFilter("broker_group__name", label="its group"),
        "kind": django_filters.ChoiceFilter("broker_group__kind", choices=[(k.value, k.value) for k in GroupKind]),
    }
    ordering_fields = (
        "node_id", "broker_group", "kind", "address", "version", "log_end", "leased_at", *overview.NODE_NUMBERS,
    )  # fmt: skip
    ordering_paths = {"broker_group": "broker_group__name", "kind": "broker_group__kind"}
    ordering = ("node_id",)

    def get(self, request: Request) -> Response:
        numbers = overview.numbers()
        measured = overview.node_numbers(numbers)
        nothing = dict.fromkeys(overview.NODE_NUMBERS) | {
            "unmeasured_reason": numbers.reason or "not known to the collector yet"
        }

        def rows(found: Iterable[Any]) -> list[dict[str, Any]]:
            return [self.shown(node, shapes.NodeRow) | measured.get(node.node_id, nothing) for node in found]

        nodes = self.filter_queryset(self.get_queryset())
        if request.query_params.get("ordering", "").removeprefix("-") in overview.NODE_NUMBERS:
            page, following = _BY_NUMBER.page(self, rows(nodes))
            return Response({"results": page, "next": following, "previous": None})
        return self.get_paginated_response(rows(self.paginate_queryset(nodes) or []))


class NodeView(ApiView):
    """Return a node with its own current numbers."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.NodeDetail

    def get(self, request: Request, node_id: str) -> Response:
        found = queries.nodes().filter(node_id=node_id).first()
        if found is None:
            raise NotFound(f"Node {node_id!r} not found.", code="node.unknown")
        stats: dict[str, Any] | None = None
        reason: str | None = f"broker group {found.broker_group.name} is pending approval"
        if found.broker_group.operator_state != OperatorState.UNAPPROVED:
            answer = node_stats(found.node_id, found.admin_address)
            reason = answer.reason
            if answer.value is not None:
                stats = {key: value for key, value in answer.value.items() if key not in ("subjects", "next_after")}
        return Response(self.shown(found, shapes.NodeRow) | {"stats": stats, "unknown_reason": reason})


class MayStopView(ApiView):
    """Return whether a node may be stopped now: its broker group would keep a candidate, its minimum, and a copy. Also what
    would happen if it is stopped nevertheless, and what uses the group.
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.MayStop

    def get(self, request: Request, node_id: str) -> Response:
        return Response(self.shown(stop_effect(node_id)))


class AcceptLogLossView(ApiView):
    """Accept the data loss of a node whose log ends earlier than it had reported, so that it serves again. Acknowledged data
    past the end is permanently lost.
    """

    rights = {"POST": Right.CHANGE_CLUSTER}
    bodies = {"POST": shapes.LogLoss}

    def post(self, request: Request, node_id: str) -> Change:
        return service.accept_log_loss(node_id, log_end=int(self.body()["log_end"]), **self.arguments)
