"""Checks the table of rights. Every view declares the right of each of its methods; a method without one rejects every caller."""

from typing import TYPE_CHECKING

from rest_framework import exceptions, permissions
from rest_framework.request import Request

from api.problems import Problem
from console.accounts.roles import Principal, Right
from console.accounts.sessions import REAUTHENTICATION_SECONDS, proved_recently

if TYPE_CHECKING:
    from rest_framework.views import APIView


class HasRight(permissions.BasePermission):
    """Whether the caller has the right of this method at all; the owner is checked once the subject is known."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        principal = request.auth
        method = "GET" if request.method == "HEAD" else request.method
        right = getattr(view, "rights", {}).get(method)
        if not isinstance(principal, Principal):
            raise exceptions.NotAuthenticated
        if right is None:
            return False
        if not principal.has(right):
            raise exceptions.PermissionDenied(missing(principal, right), "access.denied")
        return True


def require_recent_proof(request: Request) -> None:
    """Raise 403 unless the caller entered a password or a code within the last minutes, by signing in or confirming it: an open
    session alone, such as one in an unattended browser, can't create tokens or administrators.
    """
    if not proved_recently(request._request):
        minutes = REAUTHENTICATION_SECONDS // 60
        text = f"Enter your password or a code again. The last confirmation was more than {minutes} minutes ago."
        raise Problem(403, "access.reauthenticate", text)


def missing(principal: Principal, right: Right, owner: str | None = None) -> str:
    """Return the text for a caller who lacks a right."""
    if principal.lacks_second_factor:
        return "Two-factor authentication is required. Set up an authenticator app first."
    if principal.has(right) and owner is not None:
        return f"The subject belongs to team {owner}, and {principal.name} is not a member. Ask a member or an administrator."
    what = "the token's scopes do" if principal.scopes is not None else f"role {principal.role} does"
    return f"{what} not include {right}"
