"""Serializers of the caller's account and of the table of rights."""

from datetime import datetime

from rest_framework import serializers

from api.serializers.bodies import Body, Reason, Row, Strings
from console.accounts.models import UserSession
from console.accounts.preferences import LANGUAGES, PREFERENCES
from console.accounts.services import USER
from console.accounts.sessions import LIFE_MAX


class Preferences(Body):
    """Display preferences."""

    rules = PREFERENCES.fields


class Limits(serializers.Serializer):  # type: ignore[type-arg]
    """Limits that the pages of the console show and apply."""

    body_bytes = serializers.IntegerField(help_text="per request")
    page_rows = serializers.IntegerField()
    download_rows = serializers.IntegerField()
    download_rows_of_nodes = serializers.IntegerField(help_text="for lists read from nodes: messages, dead letters")
    reason_chars = serializers.IntegerField()
    letters_of_one_request = serializers.IntegerField(help_text="dead letters replayed or deleted")
    websockets = serializers.IntegerField(help_text="open at a time")


class System(serializers.Serializer):  # type: ignore[type-arg]
    """A console of the switcher."""

    name = serializers.CharField()
    url = serializers.CharField()


class Console(serializers.Serializer):  # type: ignore[type-arg]
    """Settings of the console that its pages use."""

    version = serializers.CharField()
    metaserver = serializers.CharField(
        help_text="host:port of each metaserver, as the console reaches it, separated by commas"
    )
    languages = Strings()
    themes = Strings()
    single_sign_on = serializers.CharField(allow_null=True, help_text="its name; null: not configured")
    systems = System(many=True, help_text="consoles that the setting QMQ_SYSTEMS names")
    limits = Limits()


class Me(serializers.Serializer):  # type: ignore[type-arg]
    """The caller and their rights."""

    id = serializers.CharField()
    username = serializers.CharField()
    email = serializers.CharField()
    first_name = serializers.CharField()
    last_name = serializers.CharField()
    language = serializers.CharField()
    role = serializers.CharField()
    teams = Strings()
    rights = Strings(help_text="on subjects of their teams or without an owner")
    preferences = Preferences()
    demands_second_factor = serializers.BooleanField(
        help_text="whether this user must set up two-factor authentication"
    )
    has_password = serializers.BooleanField(help_text="false: signs in through the identity provider")
    has_second_factor = serializers.BooleanField()
    lacks_second_factor = serializers.BooleanField(
        help_text="required and not set up; until then only the user's own account is accessible"
    )
    proved_recently = serializers.BooleanField(
        help_text="whether sensitive actions are possible without another confirmation"
    )
    version = serializers.CharField()
    console = Console()


class MyChange(Reason):
    """A change of the caller's profile; omitted fields keep their value."""

    rules = {name: USER.fields[name] for name in ("first_name", "last_name")}
    language = serializers.ChoiceField(
        choices=LANGUAGES, required=False, allow_blank=True, help_text="blank: browser default"
    )
    preferences = Preferences(required=False)


class SessionRow(Row):
    """A session of a browser."""

    # The context's `this` is the id of the caller's session.

    id = serializers.CharField()
    is_this = serializers.SerializerMethodField(help_text="the session of this request")
    started_at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField()
    expires_at = serializers.SerializerMethodField(help_text="at the latest; earlier if the session is idle")
    address = serializers.CharField()
    user_agent = serializers.CharField()

    def get_is_this(self, session: UserSession) -> bool:
        """Whether it is the session of this request."""
        return bool(session.pk == self.context["this"])

    def get_expires_at(self, session: UserSession) -> datetime:
        """Time when it ends at the latest."""
        return session.started_at + LIFE_MAX


class RoleRow(serializers.Serializer):  # type: ignore[type-arg]
    """A role and its rights."""

    name = serializers.CharField()
    rights = Strings()


class RoleTable(serializers.Serializer):  # type: ignore[type-arg]
    """The table of rights."""

    roles = RoleRow(many=True)
    scopes = RoleRow(many=True, help_text="rights granted by this scope, limited by the owner's role")
    rights_of_a_subject = Strings(
        help_text="operators have these rights on subjects of their teams and subjects without an owner"
    )
