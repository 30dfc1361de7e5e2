"""Serializers of API tokens."""

from django.utils import timezone
from rest_framework import serializers

from api.schema import ChangeSerializer
from api.serializers.bodies import Reason, Row, Strings
from console.accounts.models import ApiToken
from console.accounts.roles import Scope
from console.accounts.tokens import LIFETIME_MAX, NAME_CHARS_MAX


class NewToken(Reason):
    """A new API token."""

    name = serializers.CharField(max_length=NAME_CHARS_MAX)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=[scope.value for scope in Scope]), min_length=1, max_length=len(Scope)
    )
    expires_in_days = serializers.IntegerField(required=False, default=90, min_value=1, max_value=LIFETIME_MAX.days)


class TokenRow(Row):
    """An API token, without the secret itself."""

    id = serializers.CharField()
    name = serializers.CharField()
    owner = serializers.CharField(source="owner.username")
    prefix = serializers.CharField(help_text="prefix of the token")
    scopes = Strings()
    is_live = serializers.SerializerMethodField(help_text="neither revoked nor expired")
    expires_at = serializers.DateTimeField()
    created_at = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_used_from = serializers.CharField()

    def get_is_live(self, token: ApiToken) -> bool:
        """Whether it is valid now."""
        return token.revoked_at is None and token.expires_at > timezone.now()


class MadeToken(ChangeSerializer):
    """The created API token."""

    id = serializers.CharField(allow_null=True, help_text="null in a dry run")
    token = serializers.CharField(allow_null=True, help_text="shown only once")
