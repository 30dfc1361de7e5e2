"""Serializers of broker groups, nodes and background jobs."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from api.serializers.bodies import Moment, Reason, Row, SequenceField, Strings
from api.serializers.reasons import Explained, Why, WhyChanged
from metaserver.choices import GroupKind, GroupState, OperatorState, effective_state
from metaserver.memory.members import shared_rack
from metaserver.services.broker_groups import BROKER_GROUP, NAME
from metaserver.services.members import COPIES
from qmq.protocol.codes import MASTER_ROLES
from qmq.protocol.group_memberships import MEMBERS_MAX

REHEARSAL_CHARS_MAX = 120


class NodeRow(Row):
    """A node, as of its last registration."""

    node_id = serializers.CharField()
    broker_group = serializers.CharField(source="broker_group.name")
    kind = serializers.ChoiceField(choices=[k.value for k in GroupKind], source="broker_group.kind")
    role = serializers.SerializerMethodField()
    is_master = serializers.SerializerMethodField(help_text="whether it is the master of its group")
    address = serializers.CharField()
    admin_address = serializers.CharField(allow_blank=True)
    version = serializers.CharField(allow_blank=True)
    log_end = serializers.CharField(help_text="highest synced log offset reported by the node, in bytes")
    leased_at = serializers.DateTimeField(allow_null=True)
    rack = serializers.CharField(allow_blank=True, help_text="where the node runs, as it was started; empty: not set")

    @extend_schema_field(serializers.ChoiceField(choices=["master", "slave"]))
    def get_role(self, node: Any) -> str:
        """The role that the node registered, the same word for broker and delay nodes."""
        return "master" if node.role in MASTER_ROLES else "slave"

    def get_is_master(self, node: Any) -> bool:
        """Whether it is the master of its group now."""
        return bool(node.broker_group.master == node.node_id)


class NodeNumbersRow(NodeRow):
    """A node with the latest numbers of the collector; null: not measured, or not applicable to this kind of node."""

    disk_used_bytes = serializers.IntegerField(allow_null=True, help_text="of the file system that holds the log")
    disk_free_bytes = serializers.IntegerField(allow_null=True)
    disk_total_bytes = serializers.IntegerField(allow_null=True)
    connections = serializers.IntegerField(allow_null=True)
    uptime_seconds = serializers.IntegerField(allow_null=True)
    pending = serializers.IntegerField(
        allow_null=True, help_text="pending delayed messages; this and the following fields: delay nodes only"
    )
    overdue = serializers.IntegerField(allow_null=True)
    lateness_p99_seconds = serializers.FloatField(allow_null=True)
    unmeasured_reason = serializers.CharField(allow_null=True)


class NodeDetail(NodeRow):
    """A node with its own numbers; null with a reason if it is unreachable."""

    stats = serializers.DictField(allow_null=True, help_text="GET /stats of the node, without subjects")
    unknown_reason = serializers.CharField(allow_null=True)


class BrokerGroupRow(Row):
    """A broker group or delay group."""

    # The context's `served` has the subjects of each group: how many it serves, and how many of them come or go.

    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=[k.value for k in GroupKind])
    state = serializers.SerializerMethodField(help_text="state reported to clients")
    reported_state = serializers.ChoiceField(
        choices=[s.value for s in GroupState], source="state", help_text="state reported by its master"
    )
    operator_state = serializers.ChoiceField(choices=[s.value for s in OperatorState])
    operator_reason = serializers.CharField(allow_blank=True)
    operator_since = serializers.DateTimeField(allow_null=True)
    description = serializers.CharField(allow_blank=True)
    epoch = serializers.CharField()
    master = serializers.CharField(allow_blank=True)
    in_sync = Strings()
    in_sync_min = serializers.IntegerField(
        help_text="members that have to be in sync so that sends are accepted, or all members if there are fewer"
    )
    in_sync_min_in_force = serializers.IntegerField(
        help_text="the minimum that applies now: of members that have not been in sync since they joined, none counts"
    )
    members = Strings(help_text="node IDs")
    copies = serializers.IntegerField(help_text="number of members that it should have")
    replaced = serializers.CharField(
        allow_blank=True, help_text="node ID of the member that another node is to replace; empty if none is pending"
    )
    replacement = serializers.CharField(allow_blank=True, help_text="node ID of that other node")
    preferred = Strings(help_text="node IDs; of members with equally long logs, the first is promoted")
    nodes = NodeRow(many=True)
    shared_rack = serializers.SerializerMethodField()
    subjects = serializers.SerializerMethodField(
        help_text="subjects it serves, including those that are joining or leaving"
    )
    subjects_moving = serializers.SerializerMethodField()
    version = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    @extend_schema_field(serializers.ChoiceField(choices=[s.value for s in GroupState]))
    def get_state(self, group: Any) -> str:
        """The state reported by its master, restricted by the operator's state."""
        return str(effective_state(group.state, group.operator_state))

    def get_shared_rack(self, group: Any) -> str:
        """The rack that all its members are on, if it has several; empty: they are on several racks, or one is not known."""
        return shared_rack(group.members, {node.node_id: node.rack for node in group.nodes.all()})

    def get_subjects(self, group: Any) -> int:
        """The number of subjects that it serves."""
        return self._served(group)[0]

    def get_subjects_moving(self, group: Any) -> int:
        """Of these, the number that is moving."""
        return self._served(group)[1]

    def _served(self, group: Any) -> tuple[int, int]:
        served: tuple[int, int] = self.context["served"].get(group.name, (0, 0))
        return served


class MemberState(Row):
    """A member of a broker group, or a spare node of it, as of its last stored heartbeat."""

    node_id = serializers.CharField()
    is_member = serializers.BooleanField(help_text="otherwise it is a spare")
    is_master = serializers.BooleanField(help_text="whether the group's membership names it as master")
    in_sync = serializers.BooleanField(source="is_in_sync", help_text="whether it has everything that was acknowledged")
    role = serializers.CharField(
        help_text="role that it reported, such as master, in_sync, following or copying; offline without heartbeats"
    )
    epoch = serializers.CharField(source="report.epoch", default=None, allow_null=True)
    log_end = serializers.CharField(
        source="report.log_end", default=None, allow_null=True, help_text="what it has synced, in bytes"
    )
    high_watermark = serializers.CharField(source="report.high_watermark", default=None, allow_null=True)
    lag_bytes = serializers.IntegerField(
        allow_null=True, help_text="how much of the master's log it has not synced; null: not known"
    )
    address = serializers.CharField(source="node.address", default=None, allow_null=True)
    sync_address = serializers.CharField(source="node.sync_address", default=None, allow_null=True)
    rack = serializers.CharField(source="node.rack", default=None, allow_null=True)
    reported_at = Moment(source="node.reported_at_ms", default=None, help_text="when its last stored heartbeat arrived")
    problem = serializers.CharField(allow_blank=True, help_text="why it can't be promoted; empty if it can")
    problem_why = Why(source="problem", allow_null=True)
    limitations = serializers.ListField(
        child=Explained(),
        source="report.limitations",
        default=list,
        help_text="why others are promoted before it although it could lead, such as a full disk",
    )


class RoleChange(Row):
    """A change of a broker group's master, members or in-sync set."""

    at = serializers.DateTimeField()
    actor = serializers.CharField()
    action = serializers.CharField(help_text="such as broker_group.promote or broker_group.remove_in_sync")
    reason = serializers.CharField(allow_blank=True)
    why = WhyChanged(source="*")
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class ResultPart(serializers.Serializer):  # type: ignore[type-arg]
    """A part of the result of a background job."""

    code = serializers.CharField(help_text="stable dotted code, such as alerts.fired")
    values = serializers.DictField(help_text="values of its text; `count` is the number that selects the plural")


class Waiting(ResultPart):
    """What the move of a subject waits for."""

    subject = serializers.CharField()
    text = serializers.CharField(help_text="in English; code and values are the same for other languages")


class BrokerGroupDetail(BrokerGroupRow):
    """A broker group and the operations that are possible on it."""

    member_states = MemberState(many=True, source="states.nodes")
    candidate_problem = serializers.CharField(
        source="states.candidate_problem",
        allow_blank=True,
        help_text="why no member could replace the master; empty if one could",
    )
    candidate_why = Why(source="states.candidate_problem", allow_null=True)
    waiting = Waiting(
        many=True,
        help_text="what subjects that join or leave wait for here, such as consumer groups with pending messages",
    )
    role_history = RoleChange(many=True, source="history", help_text="newest first")
    may_be_removed = serializers.SerializerMethodField()

    def get_may_be_removed(self, group: Any) -> bool:
        """Whether it serves no subjects and its nodes are stopped."""
        return self._served(group)[0] == 0 and group.state == GroupState.OFFLINE


class BrokerGroupChange(Reason):
    """A new description."""

    rules = BROKER_GROUP.fields
    needed = ("description",)


class NewBrokerGroup(Reason):
    """A broker group to create before its first node registers."""

    rules = {"name": NAME, **BROKER_GROUP.fields}
    needed = ("name",)
    kind = serializers.ChoiceField(choices=[k.value for k in GroupKind], default=GroupKind.BROKER.value)


class Copies(Reason):
    """How many members a broker group should have."""

    rules = COPIES.fields
    remove = Strings(
        default=list,
        max_length=MEMBERS_MAX - 1,
        help_text="node IDs of members to remove; the master switches over first",
    )


class MemberToRemove(Reason):
    """A member that leaves its broker group."""

    node = serializers.CharField(
        max_length=100, help_text="node ID of the member, or of the node of a replacement that is to be canceled"
    )


class MemberToReplace(Reason):
    """A member, and the node that replaces it."""

    node = serializers.CharField(max_length=100, help_text="node ID of the member")
    replacement = serializers.CharField(
        max_length=100,
        help_text="node ID of a node of the same group with an empty data folder; it may be started later",
    )


class SwitchOver(Reason):
    """Which slave becomes the master."""

    to = serializers.CharField(
        max_length=100, default="", allow_blank=True, help_text="node ID; empty: the slave that has the most"
    )
    rehearsal = serializers.CharField(
        max_length=REHEARSAL_CHARS_MAX,
        default="",
        allow_blank=True,
        help_text="what is rehearsed, such as `node g1-a` or `rack r1`, so that it can be undone; empty: nothing",
    )


class Promotion(Reason):
    """A member to promote, and the loss that is accepted."""

    node = serializers.CharField(max_length=100, help_text="node ID of the member")
    accept_loss_bytes = SequenceField(
        default=None, allow_null=True, help_text="exactly the bytes at risk, which a dry run returns"
    )
    reason = serializers.CharField(max_length=500)


class LostGroup(Reason):
    """A broker group to remove although it has messages, and the loss that is accepted."""

    accept_loss = SequenceField(
        default=None, allow_null=True, help_text="exactly the loss that a dry run returns as `at_risk`"
    )
    reason = serializers.CharField(max_length=500)


class MayStop(Row):
    """Whether a node may be stopped now, what would happen if it were, and what uses its broker group."""

    node_id = serializers.CharField()
    broker_group = serializers.CharField()
    kind = serializers.ChoiceField(choices=[k.value for k in GroupKind])
    is_member = serializers.BooleanField(help_text="otherwise it is a spare, and stopping it changes nothing")
    is_master = serializers.BooleanField()
    may_stop = serializers.SerializerMethodField()
    reasons = Strings(source="stop.problems", help_text="what would be lost or unavailable; empty if it may be stopped")
    why = serializers.ListField(child=Explained(), source="stop.problems", help_text="the reasons with their codes")
    next_master = serializers.CharField(
        source="stop.master",
        allow_blank=True,
        help_text="node ID of the node that would lead the group; empty: none could",
    )
    rejects_sends = serializers.SerializerMethodField()
    in_sync_left = serializers.IntegerField(source="stop.in_sync", help_text="copies in sync that would be left")
    in_sync_min = serializers.IntegerField(source="stop.minimum")
    subjects = serializers.IntegerField(help_text="subjects that the group serves; 0 for a delay group")
    sole_subjects = serializers.IntegerField(
        help_text="of these, the ones whose messages no other broker group accepts"
    )
    consumer_groups = serializers.IntegerField(allow_null=True, help_text="consumer groups of these subjects")
    send_rate = serializers.FloatField(source="numbers.send_rate", allow_null=True)
    pull_rate = serializers.FloatField(source="numbers.pull_rate", allow_null=True)
    delivered_per_second = serializers.FloatField(
        source="numbers.delivered_per_second", allow_null=True, help_text="this and `pending`: delay groups only"
    )
    pending = serializers.IntegerField(source="numbers.pending", allow_null=True)
    unmeasured_reason = serializers.CharField(allow_null=True, help_text="why a number of the group is null")

    def get_may_stop(self, effect: Any) -> bool:
        """Whether nothing would be lost or unavailable."""
        return not effect.stop.problems

    def get_rejects_sends(self, effect: Any) -> bool:
        """Whether the group would reject sends until the node is back."""
        rejects: bool = effect.stop.rejects_sends
        return rejects


class LogLoss(Reason):
    """Acceptance of the data loss of a node whose log ends earlier than it had reported."""

    log_end = serializers.RegexField(
        r"^[0-9]{1,18}$", help_text="current end of its log; acknowledged data past it is lost"
    )
    reason = serializers.CharField(max_length=500)


class JobRow(Row):
    """A background job."""

    name = serializers.CharField(source="job.name")
    text = serializers.CharField(source="job.text", help_text="description of the job")
    every_seconds = serializers.FloatField(source="job.every_seconds")
    is_enabled = serializers.BooleanField(source="row.is_enabled")
    is_late = serializers.BooleanField(help_text="whether it has not succeeded for three intervals")
    is_running = serializers.BooleanField()
    holder = serializers.CharField(
        source="row.holder", allow_blank=True, help_text="the worker that runs it, or ran it last"
    )
    queue = serializers.CharField(
        source="job.queue", help_text="Celery queue of the job; the job becomes overdue when no worker serves it"
    )
    started_at = serializers.DateTimeField(source="row.started_at", allow_null=True)
    finished_at = serializers.DateTimeField(source="row.finished_at", allow_null=True)
    succeeded_at = serializers.DateTimeField(source="row.succeeded_at", allow_null=True)
    next_run_at = serializers.DateTimeField(allow_null=True)
    result = serializers.CharField(
        source="row.result", allow_blank=True, help_text="what the last successful run did, in English"
    )
    result_parts = ResultPart(
        source="row.result_parts",
        many=True,
        help_text="the same as codes and values, for other languages; empty: only `result` is known",
    )
    error = serializers.CharField(
        source="row.error", allow_blank=True, help_text="error of the last run; empty if it succeeded"
    )
    error_parts = ResultPart(
        source="row.error_parts",
        many=True,
        help_text="the same as codes and values, for other languages; empty: only `error` is known",
    )
    error_details = serializers.CharField(
        source="row.error_details",
        allow_blank=True,
        help_text="lines that the error leaves out, such as a program's output",
    )
    runs = serializers.CharField(source="row.runs")
    failures = serializers.CharField(source="row.failures")


class Jobs(serializers.Serializer):  # type: ignore[type-arg]
    """All background jobs."""

    results = JobRow(many=True)
