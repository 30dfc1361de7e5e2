"""From a signed-in user, or a token, to who asks."""

from console.accounts.models import ApiToken, User
from console.accounts.roles import Principal, Role, Scope


def principal_of(user: User, token: ApiToken | None = None) -> Principal:
    """Read anew for each request: a role that was taken away is gone at once."""
    scopes = None
    name = user.get_username()
    if token is not None:
        scopes = frozenset(Scope(scope) for scope in token.scopes if scope in set(Scope))
        name = f"{name} (token {token.prefix})"
    return Principal(name, Role(user.role), frozenset(user.teams.values_list("name", flat=True)), scopes)
