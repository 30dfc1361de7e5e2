"""The shape of tokens."""

from rest_framework import serializers

from api.schema import ChangeSerializer
from api.serializers.bodies import Body
from console.accounts.roles import Scope

DAYS_MAX = 365


class NewToken(Body):
    """A token to make."""

    name = serializers.CharField(max_length=100)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=[scope.value for scope in Scope]), min_length=1, max_length=len(Scope)
    )
    expires_in_days = serializers.IntegerField(required=False, default=90, min_value=1, max_value=DAYS_MAX)
    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)


class TokenRow(serializers.Serializer):  # type: ignore[type-arg]
    """A token; never the token itself."""

    id = serializers.CharField()
    name = serializers.CharField()
    owner = serializers.CharField()
    prefix = serializers.CharField(help_text="prefix of the token")
    scopes = serializers.ListField(child=serializers.CharField())
    is_live = serializers.BooleanField(help_text="neither revoked nor expired")
    expires_at = serializers.DateTimeField()
    created_at = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_used_from = serializers.CharField()


class MadeToken(ChangeSerializer):
    """A token that was made."""

    id = serializers.CharField(allow_null=True, help_text="null in a dry run")
    token = serializers.CharField(allow_null=True, help_text="shown only once")
