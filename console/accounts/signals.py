"""Log entries and session changes when a user signs in or out, or changes their credentials."""

import logging
from functools import partial
from typing import Any

from allauth.mfa.signals import authenticator_added, authenticator_removed, authenticator_reset
from allauth.socialaccount.signals import social_account_added
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import transaction
from django.http import HttpRequest

from console.accounts import known, sessions
from console.accounts.models import User, UserSession
from console.http.requests import client_id, current_id
from metaserver.services import audit
from metaserver.services.changes import Actor

_OF_FACTORS = {"add": authenticator_added, "remove": authenticator_removed, "reset": authenticator_reset}
logger = logging.getLogger("qmq.accounts")


def connect() -> None:
    """Listen."""
    user_logged_in.connect(_signed_in, dispatch_uid="qmq.signed_in")
    user_logged_out.connect(_signed_out, dispatch_uid="qmq.signed_out")
    user_login_failed.connect(_refused, dispatch_uid="qmq.refused")
    social_account_added.connect(_identity_added, dispatch_uid="qmq.identity_added")
    for word, signal in _OF_FACTORS.items():
        changed = partial(_factor_changed, action=f"user.second_factor_{word}")
        signal.connect(changed, weak=False, dispatch_uid=f"qmq.factor_{word}")


def actor_of(request: HttpRequest, user: User) -> Actor:
    return Actor(user.get_username(), str(request.META.get("REMOTE_ADDR", "")), current_id.get(), client_id.get())


def _signed_in(request: HttpRequest, user: User, **_: Any) -> None:
    row = sessions.begin(user, request)
    known.remember(request, user)
    logger.info("%s signed in from %s", user.get_username(), row.address or "an unknown address")


def _signed_out(request: HttpRequest, user: User | None, **_: Any) -> None:
    row_id = request.session.get(sessions.KEY)
    if user is not None and isinstance(row_id, int):
        UserSession.objects.filter(pk=row_id, user=user).delete()
        logger.info("%s signed out", user.get_username())


def _refused(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    name = credentials.get("username") or credentials.get("email") or ""
    address = request.META.get("REMOTE_ADDR", "") if request is not None else ""
    # What was typed as a name may be a password: enough of it to recognise a guessed account, not more.
    logger.warning("sign-in as %r refused, from %s", str(name)[:40], address)


def _identity_added(request: HttpRequest, sociallogin: Any, **_: Any) -> None:
    user: User = sociallogin.user
    after = {"provider": str(sociallogin.account.provider), "uid": str(sociallogin.account.uid)[:200]}
    with transaction.atomic():
        audit.record(actor=actor_of(request, user), action="user.connect", target=user.get_username(), after=after)


def _factor_changed(request: HttpRequest, user: User, authenticator: Any, action: str, **_: Any) -> None:
    after = {"type": str(authenticator.type)}
    with transaction.atomic():
        audit.record(actor=actor_of(request, user), action=action, target=user.get_username(), after=after)
