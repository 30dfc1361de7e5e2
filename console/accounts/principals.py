"""From a signed-in user, or a token, to who asks."""

from allauth.mfa.models import Authenticator
from django.conf import settings

from console.accounts.models import ApiToken, User
from console.accounts.roles import Principal, Role, Scope


def principal_of(user: User, token: ApiToken | None = None) -> Principal:
    """Read anew for each request: a role that was taken away is gone at once."""
    scopes = None
    name = user.get_username()
    if token is not None:
        scopes = frozenset(Scope(scope) for scope in token.scopes if scope in set(Scope))
        name = f"{name} (token {token.prefix})"
    teams = frozenset(user.teams.values_list("name", flat=True))
    return Principal(name, Role(user.role), teams, scopes, token is None and lacks_second_factor(user))


def demands_second_factor(user: User) -> bool:
    """Whether QMQ_MFA_REQUIRED demands a second factor of this user."""
    return bool(settings.MFA_REQUIRED == "all" or (settings.MFA_REQUIRED == "admins" and user.role == Role.ADMIN))


def lacks_second_factor(user: User) -> bool:
    """Whether QMQ_MFA_REQUIRED demands a second factor of this user that is not there."""
    return (
        demands_second_factor(user)
        and not Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists()
    )
