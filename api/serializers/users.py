"""The shape of users and teams. What values mean is checked by the services."""

from rest_framework import serializers

from api.schema import ChangeSerializer
from api.serializers.bodies import Body
from console.accounts.roles import Role

REASON_CHARS_MAX = 500


class UserValues(Body):
    """What an administrator may set."""

    email = serializers.CharField(required=False, allow_blank=True, max_length=254)
    first_name = serializers.CharField(required=False, allow_blank=True, max_length=150)
    last_name = serializers.CharField(required=False, allow_blank=True, max_length=150)
    language = serializers.CharField(required=False, allow_blank=True, max_length=10)
    role = serializers.ChoiceField(required=False, choices=[role.value for role in Role])
    teams = serializers.ListField(child=serializers.CharField(max_length=60), required=False, max_length=50)
    is_active = serializers.BooleanField(required=False)


class UserChange(UserValues):
    """A change of a user; what is left out stays."""

    reason = serializers.CharField(required=False, allow_blank=True, max_length=REASON_CHARS_MAX)


class NewUser(UserChange):
    """A user to make."""

    username = serializers.CharField(max_length=60)
    password = serializers.CharField(
        required=False, max_length=200, trim_whitespace=False, help_text="absent: generated and shown once"
    )


class UserRow(UserValues):
    """A user of a list."""

    id = serializers.CharField()
    username = serializers.CharField()
    has_password = serializers.BooleanField(help_text="false: signs in through the identity provider")
    sessions = serializers.IntegerField(help_text="active sessions")
    tokens = serializers.IntegerField(help_text="active tokens")
    last_login = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    version = serializers.CharField()


class MadeUser(ChangeSerializer):
    """A user that was made."""

    id = serializers.CharField(allow_null=True, help_text="null in a dry run")
    password = serializers.CharField(allow_null=True, help_text="shown only once; null if a password was provided")


class TeamRow(serializers.Serializer):  # type: ignore[type-arg]
    """A team."""

    name = serializers.CharField()
    description = serializers.CharField()
    subjects = serializers.IntegerField(help_text="owned subjects")
    members = serializers.IntegerField()
    version = serializers.CharField()
    created_at = serializers.DateTimeField()


class TeamChange(Body):
    """A change of a team."""

    description = serializers.CharField(allow_blank=True, max_length=500)
    reason = serializers.CharField(required=False, allow_blank=True, max_length=REASON_CHARS_MAX)


class NewTeam(Body):
    """A team to make."""

    name = serializers.CharField(max_length=60)
    description = serializers.CharField(required=False, allow_blank=True, max_length=500)
    reason = serializers.CharField(required=False, allow_blank=True, max_length=REASON_CHARS_MAX)


class Members(Body):
    """Exactly these users are in the team."""

    members = serializers.ListField(child=serializers.CharField(max_length=150), max_length=500)
    reason = serializers.CharField(required=False, allow_blank=True, max_length=REASON_CHARS_MAX)


class Member(serializers.Serializer):  # type: ignore[type-arg]
    """A user of a team."""

    username = serializers.CharField()
    role = serializers.ChoiceField(choices=[role.value for role in Role])
    is_active = serializers.BooleanField()
