"""The client of a websocket and its rights: checked when it connects, and again every few seconds. Runs in threads (database)."""

from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.http.request import validate_host
from django.utils.crypto import constant_time_compare

from console.accounts.models import User
from console.accounts.principals import principal_of
from console.accounts.roles import Principal
from console.accounts.sessions import live_session
from console.accounts.tokens import find_token
from console.http.verified import verified

SUBPROTOCOL = "qmq"
TOKEN_SUBPROTOCOL = "bearer."
TOKEN_CHARS_MAX = 200
PORT_OF_SCHEME = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Credential:
    """Credential of a client: a session's key or an API token."""

    session_key: str = ""
    token: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class Visitor:
    """An authenticated client: the account and its current rights."""

    username: str
    principal: Principal


def credential_of(headers: dict[str, str], subprotocols: list[str], address: str) -> tuple[Credential, str | None]:
    """What the handshake shows, and the subprotocol to answer. A token wins: who sends one means it.

    A browser can't set headers on a websocket: its script may give the token as subprotocol `bearer.<token>`, and should
    offer `qmq` too, which then is the answer, so that the token does not come back in one.
    """
    answer = SUBPROTOCOL if SUBPROTOCOL in subprotocols else None
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return Credential(token=token.strip()[:TOKEN_CHARS_MAX], address=address), answer
    for offered in subprotocols:
        if offered.startswith(TOKEN_SUBPROTOCOL):
            given = Credential(token=offered[len(TOKEN_SUBPROTOCOL) :][:TOKEN_CHARS_MAX], address=address)
            return given, answer or offered
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        cookie = None
    return Credential(session_key=cookie.value if cookie is not None else "", address=address), answer


def is_origin_allowed(origin: str | None, credential: Credential, scope: Mapping[str, Any], host: str) -> bool:
    """Whether a page of this origin may open websockets: one of this scheme, host and port, or a trusted one, as Django
    compares them for changes (CSRF). A cookie is sent to every port of its host, so the host alone proves nothing.

    Args:
        origin: None for a client that is no browser; one with a token needs no origin.
        scope: of the connection, for its scheme.
        host: the Host header.
    """
    if origin is None:
        return bool(credential.token)
    found = _origin_of(origin)
    if found is None:
        return False
    if found == _origin_of(f"{'https' if scope.get('scheme') == 'wss' else 'http'}://{host}"):
        return validate_host(found[1], settings.ALLOWED_HOSTS)
    return any(_is_trusted(found, trusted) for trusted in settings.CSRF_TRUSTED_ORIGINS)


def _origin_of(text: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an origin; None for anything else."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in PORT_OF_SCHEME or not host or parts.username is not None or parts.path not in ("", "/"):
        return None
    return parts.scheme, f"[{host}]" if ":" in host else host, port or PORT_OF_SCHEME[parts.scheme]


def _is_trusted(found: tuple[str, str, int], trusted: str) -> bool:
    """Whether an origin is this one of CSRF_TRUSTED_ORIGINS, which may be like `https://*.example.com`."""
    scheme, separator, host = trusted.partition("://*.")
    wanted = _origin_of(f"{scheme}://{host}" if separator else trusted)
    if wanted is None or (found[0], found[2]) != (wanted[0], wanted[2]):
        return False
    return found[1].endswith(f".{wanted[1]}") if separator else found[1] == wanted[1]


def find(credential: Credential) -> Visitor | None:
    """Return the account of a credential; None when it is not valid, or no longer."""
    found = _find(credential)
    shown = credential.token or credential.session_key
    if found is None:
        verified.discard(shown)
    else:
        verified.add(shown)
    return found


def _find(credential: Credential) -> Visitor | None:
    if credential.token:
        row = find_token(credential.token, credential.address)
        return None if row is None else Visitor(row.owner.get_username(), principal_of(row.owner, row))
    user = _user_of_session(credential.session_key)
    return None if user is None else Visitor(user.get_username(), principal_of(user))


def _user_of_session(session_key: str) -> User | None:
    """As django.contrib.auth.get_user, without writing: a session of a replaced secret key is not renewed here, because its
    cookie could not follow."""
    if not session_key:
        return None
    session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user_id, path = session.get(SESSION_KEY), session.get(BACKEND_SESSION_KEY)
    if user_id is None or path not in settings.AUTHENTICATION_BACKENDS:
        return None
    user = load_backend(path).get_user(User._meta.pk.to_python(user_id))
    if not isinstance(user, User) or not user.is_active or live_session(session, user.pk, seen=False) is None:
        return None
    kept = session.get(HASH_SESSION_KEY, "")
    hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return user if any(constant_time_compare(kept, known) for known in hashes) else None
