"""Serializers of users and teams."""

from rest_framework import serializers

from api.schema import ChangeSerializer
from api.serializers.bodies import Names, Reason, Row
from console.accounts.roles import Role
from console.accounts.services import MEMBERS_MAX, PASSWORD_CHARS_MAX, USER
from metaserver.services.teams import NAME, TEAM

_RULES = {name: rule for name, rule in USER.fields.items() if name != "preferences"}


class UserChange(Reason):
    """A change of a user; omitted fields keep their value."""

    rules = _RULES


class NewUser(UserChange):
    """A new user."""

    username = serializers.CharField(max_length=60)
    password = serializers.CharField(
        required=False,
        max_length=PASSWORD_CHARS_MAX,
        trim_whitespace=False,
        help_text="absent: generated and shown once",
    )


class UserRow(Row):
    """A user in a list."""

    rules = _RULES
    teams = Names(required=False)
    id = serializers.CharField()
    username = serializers.CharField()
    has_password = serializers.BooleanField(
        source="has_usable_password", help_text="false: signs in through the identity provider"
    )
    sessions = serializers.IntegerField(source="session_count", help_text="active sessions")
    tokens = serializers.IntegerField(source="token_count", help_text="active tokens")
    last_login = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField(source="date_joined")
    version = serializers.CharField()


class MadeUser(ChangeSerializer):
    """The created user."""

    id = serializers.CharField(allow_null=True, help_text="null in a dry run")
    password = serializers.CharField(allow_null=True, help_text="shown only once; null if a password was provided")


class TeamRow(Row):
    """A team."""

    name = serializers.CharField()
    description = serializers.CharField()
    subjects = serializers.IntegerField(source="subject_count", help_text="owned subjects")
    members = serializers.IntegerField(source="member_count")
    version = serializers.CharField()
    created_at = serializers.DateTimeField()


class TeamChange(Reason):
    """A change of a team."""

    rules = TEAM.fields
    needed = ("description",)


class NewTeam(Reason):
    """A new team."""

    rules = {"name": NAME, **TEAM.fields}
    needed = ("name",)


class Members(Reason):
    """The complete list of the members of a team."""

    members = serializers.ListField(child=serializers.CharField(max_length=150), max_length=MEMBERS_MAX)


class Member(Row):
    """A member of a team."""

    username = serializers.CharField()
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    is_active = serializers.BooleanField()
