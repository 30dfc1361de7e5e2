"""Authentication of requests: a browser session (with CSRF check) or an API token."""

from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from api.problems import csrf_text
from console.accounts.models import User
from console.accounts.principals import principal_of
from console.accounts.roles import Principal
from console.accounts.tokens import find_token
from console.http.verified import verified

SCHEME = "Bearer"


def address_of(request: Any) -> str:
    """Returns the address of the client: of the connection, or what a configured proxy forwarded (`console.http.proxies`)."""
    return str(request.META.get("REMOTE_ADDR", ""))


def user_of(request: Request) -> User:
    """The user of a request. The table of rights admits no request without one."""
    user = request.user
    assert isinstance(user, User)
    return user


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer qmq_...`. `request.auth` is the principal."""

    def authenticate(self, request: Request) -> tuple[Any, Principal] | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != SCHEME.lower():
            return None
        row = find_token(token.strip(), address_of(request))
        if row is None:
            raise exceptions.AuthenticationFailed(
                "The token is unknown, expired or revoked. Create a new one.", "token.invalid"
            )
        verified.add(token.strip())
        return row.owner, principal_of(row.owner, row)

    def authenticate_header(self, request: Request) -> str:
        return SCHEME


class SessionAuthentication(authentication.SessionAuthentication):
    """Authentication by Django's session; changes require the CSRF token."""

    def authenticate(self, request: Request) -> tuple[Any, Principal] | None:
        user = getattr(request._request, "user", None)
        if user is None or not user.is_active or user.is_anonymous:
            return None
        self.enforce_csrf(request)
        if session_key := request.COOKIES.get(settings.SESSION_COOKIE_NAME):
            verified.add(session_key)
        return user, principal_of(user)

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except exceptions.PermissionDenied as error:
            reason = str(error.detail).removeprefix("CSRF Failed: ")
            raise exceptions.PermissionDenied(csrf_text(reason), "access.csrf") from error

    def authenticate_header(self, request: Request) -> str:
        return SCHEME


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes the token in the OpenAPI file."""

    target_class = TokenAuthentication
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes the session in the OpenAPI file."""

    target_class = SessionAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": "qmq_session"}
