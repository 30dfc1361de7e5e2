"""The shape of one's own account, and of the table of rights."""

from rest_framework import serializers

from api.serializers.bodies import Body
from console.accounts.preferences import LANGUAGES, THEMES


class Preferences(Body):
    """How one wants to see the console."""

    theme = serializers.ChoiceField(choices=THEMES, required=False)
    time_zone = serializers.RegexField(
        r"^[A-Za-z][A-Za-z0-9_+/-]{0,91}$", required=False, help_text="local, UTC or a name like Europe/Berlin"
    )


class Limits(serializers.Serializer):  # type: ignore[type-arg]
    """Limits that pages show before somebody runs into them."""

    body_bytes = serializers.IntegerField(help_text="of a request")
    page_rows = serializers.IntegerField()
    download_rows = serializers.IntegerField()
    download_rows_of_nodes = serializers.IntegerField(help_text="of lists that nodes are asked for: messages, letters")
    reason_chars = serializers.IntegerField()
    letters_of_one_request = serializers.IntegerField(help_text="dead letters replayed or deleted")
    websockets = serializers.IntegerField(help_text="open at a time")


class Console(serializers.Serializer):  # type: ignore[type-arg]
    """What pages need to know of the console itself."""

    version = serializers.CharField()
    languages = serializers.ListField(child=serializers.CharField())
    themes = serializers.ListField(child=serializers.CharField())
    single_sign_on = serializers.CharField(allow_null=True, help_text="its name; null: there is none")
    limits = Limits()


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
    preferences = Preferences()
    demands_second_factor = serializers.BooleanField(help_text="an authenticator app is demanded of this user")
    has_password = serializers.BooleanField(help_text="false: signs in at the identity provider")
    has_second_factor = serializers.BooleanField()
    lacks_second_factor = serializers.BooleanField(
        help_text="one is demanded and missing: until it is set up only the own account can be used"
    )
    proved_recently = serializers.BooleanField(
        help_text="whether what needs the password again can be done without asking for it"
    )
    version = serializers.CharField()
    console = Console()


class MyChange(Body):
    """What one may change of oneself."""

    first_name = serializers.CharField(required=False, allow_blank=True, max_length=150)
    last_name = serializers.CharField(required=False, allow_blank=True, max_length=150)
    language = serializers.ChoiceField(
        choices=LANGUAGES, required=False, allow_blank=True, help_text="blank: as the browser says"
    )
    preferences = Preferences(required=False)


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
