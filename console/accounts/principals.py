"""The principal of a signed-in user or of a token."""

from allauth.mfa.models import Authenticator
from django.conf import settings

from console.accounts.models import ApiToken, User
from console.accounts.roles import Principal, Role, Scope


def principal_of(user: User, token: ApiToken | None = None) -> Principal:
    """Returns the principal of a session, or of a token of this user.

    Computed for each request, so a lost role, team or second factor takes effect at once, for tokens as for sessions.
    """
    scopes = None
    name = user.get_username()
    if token is not None:
        scopes = frozenset(Scope(scope) for scope in token.scopes if scope in set(Scope))
        name = f"{name} (token {token.prefix})"
    teams = frozenset(user.teams.values_list("name", flat=True))
    return Principal(name, Role(user.role), teams, scopes, lacks_second_factor(user))


def demands_second_factor(user: User) -> bool:
    """Returns whether QMQ_MFA_REQUIRED requires a second factor of this user."""
    return bool(settings.MFA_REQUIRED == "all" or (settings.MFA_REQUIRED == "admins" and user.role == Role.ADMIN))


def lacks_second_factor(user: User) -> bool:
    """Returns whether QMQ_MFA_REQUIRED requires a second factor of this user and none is set up."""
    return (
        demands_second_factor(user)
        and not Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists()
    )
