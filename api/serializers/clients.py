"""Serializers of clients and of the flow of messages."""

from rest_framework import serializers

from api.serializers.bodies import Row, Strings
from api.serializers.messages import UNREACHABLE
from console.cluster.clients import ClientRole, Difference
from console.reports.flow import PlaceKind
from console.snapshot.lag_state import LagState

ROLES = [(role.value, role.value) for role in ClientRole]
DIFFERENCES = [(item.value, item.value) for item in Difference]


class DiffersField(serializers.ListField):
    """What members of a consumer group subscribe differently."""

    child = serializers.ChoiceField(choices=DIFFERENCES)


class ClientRow(Row):
    """A client of a subject: a producer by application and host, a consumer by its group and client ID."""

    role = serializers.ChoiceField(choices=ROLES)
    app = serializers.CharField(allow_blank=True, help_text="application; empty: not known")
    subject = serializers.CharField()
    group = serializers.CharField(allow_blank=True, help_text="of a consumer")
    client_id = serializers.CharField(allow_blank=True, help_text="of a consumer")
    host = serializers.CharField(allow_blank=True)
    addresses = Strings(help_text="of its connections; empty: it registered, and is connected to no broker group")
    connections = serializers.IntegerField()
    broker_groups = Strings()
    rate = serializers.FloatField(
        allow_null=True, help_text="messages per second sent or delivered, smoothed over 30 s; null: not measured"
    )
    at_least = serializers.FloatField(allow_null=True, help_text="`rate` on the broker groups that answered")
    missing = Strings(help_text="broker groups of the subject that did not answer")
    agents = Strings(help_text="library and language as they registered, such as `PyQMQ/1.0 Python/3.11`")
    protocol = serializers.IntegerField(allow_null=True, help_text="header version of its frames")
    tags = Strings(allow_null=True, help_text="tags that a consumer filters by")
    all_tags = serializers.BooleanField(allow_null=True, help_text="whether messages must have all of the tags")
    broadcast = serializers.BooleanField(allow_null=True)
    differs = DiffersField(help_text="what members of its group subscribe differently")
    registered_at = serializers.DateTimeField(allow_null=True, help_text="last stored registration")
    owner = serializers.CharField(allow_null=True, help_text="owning team of the subject")


class DifferingGroup(Row):
    """A consumer group whose members subscribe differently."""

    subject = serializers.CharField()
    group = serializers.CharField()
    differs = DiffersField()


class ClientPage(serializers.Serializer):  # type: ignore[type-arg]
    """A page of clients."""

    results = ClientRow(many=True)
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)
    left_out = serializers.IntegerField(
        help_text="clients with low rates that brokers did not list: they list 2,000 each; specify a subject"
    )
    differing = DifferingGroup(many=True, help_text="at most 20")


class FlowPlace(Row):
    """One box of the picture of the flow."""

    id = serializers.CharField()
    kind = serializers.ChoiceField(
        choices=[(kind.value, kind.value) for kind in PlaceKind],
        help_text="unnamed: clients that name no application; others: the rest of its column",
    )
    name = serializers.CharField(allow_blank=True)
    subject = serializers.CharField(allow_blank=True, help_text="of a group")
    count = serializers.IntegerField(help_text="of `others`: how many")
    rate = serializers.FloatField(
        help_text="messages per second sent, or acknowledged by groups, as far as it is known"
    )
    lag = serializers.IntegerField(allow_null=True, help_text="of groups; null: not measured")
    state = serializers.ChoiceField(
        choices=[(state.value, state.value) for state in LagState], allow_null=True, help_text="of a group"
    )


class FlowLink(Row):
    """Messages per second from one box to another."""

    sender = serializers.CharField()
    receiver = serializers.CharField()
    rate = serializers.FloatField()


class FlowPicture(Row):
    """Where messages flow; each column by rate."""

    at = serializers.CharField(allow_null=True)
    reason = serializers.CharField(allow_null=True, help_text="why there are no numbers")
    unreachable = serializers.DictField(
        child=serializers.CharField(), help_text="broker groups whose connections are missing, with the reason"
    )
    applications = FlowPlace(many=True)
    subjects = FlowPlace(many=True)
    groups = FlowPlace(many=True)
    links = FlowLink(many=True)
