"""The shape of one's own account, and of the table of rights."""

from rest_framework import serializers


class Me(serializers.Serializer):  # type: ignore[type-arg]
    """Who asks, and what they may."""

    id = serializers.CharField()
    username = serializers.CharField()
    email = serializers.CharField()
    first_name = serializers.CharField()
    last_name = serializers.CharField()
    language = serializers.CharField()
    role = serializers.CharField()
    teams = serializers.ListField(child=serializers.CharField())
    rights = serializers.ListField(child=serializers.CharField(), help_text="on what is theirs or nobody's")
    has_second_factor = serializers.BooleanField()
    lacks_second_factor = serializers.BooleanField(
        help_text="one is demanded and missing: until it is set up only the own account can be used"
    )
    proved_recently = serializers.BooleanField(
        help_text="whether what needs the password again can be done without asking for it"
    )
    version = serializers.CharField()


class MyChange(serializers.Serializer):  # type: ignore[type-arg]
    """What one may change of oneself."""

    first_name = serializers.CharField(required=False, allow_blank=True, max_length=150)
    last_name = serializers.CharField(required=False, allow_blank=True, max_length=150)
    language = serializers.CharField(required=False, allow_blank=True, max_length=10)


class SessionRow(serializers.Serializer):  # type: ignore[type-arg]
    """A browser that is signed in."""

    id = serializers.CharField()
    is_this = serializers.BooleanField(help_text="the one that asks")
    started_at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(help_text="at the latest; earlier when it is not used")
    address = serializers.CharField()
    user_agent = serializers.CharField()


class RoleRow(serializers.Serializer):  # type: ignore[type-arg]
    """A role and what it may."""

    name = serializers.CharField()
    rights = serializers.ListField(child=serializers.CharField())


class RoleTable(serializers.Serializer):  # type: ignore[type-arg]
    """The table of rights."""

    roles = RoleRow(many=True)
    scopes = RoleRow(many=True, help_text="what a token with this scope may, within its owner's role")
    rights_of_a_subject = serializers.ListField(
        child=serializers.CharField(), help_text="operators have these on subjects of their teams and on unowned ones"
    )
