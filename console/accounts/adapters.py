"""Adapters for allauth: who can sign up, how attempts are counted, how secrets are stored, what a single sign-on contains."""

import logging
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from cryptography.fernet import InvalidToken
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest

from console.accounts import known, lockout, services, sessions
from console.accounts.models import User
from console.accounts.names import USERNAME
from console.accounts.roles import Role
from console.accounts.signals import actor_of
from console.http.rate_limits import network_of
from console.sealing import box
from metaserver.services import audit
from metaserver.services.changes import Actor

logger = logging.getLogger("qmq.accounts")
SSO = Actor("single sign-on")
_SECOND_FACTORS = b"qmq second facto"
"""Names the purpose of the key; blake2b takes 16 bytes."""
_ROLES_BY_POWER = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Passwords."""

    _attempt: lockout.Attempt | None = None

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Never: administrators make users."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """Returns what a client is counted under: its IPv4 address, or the /64 network of its IPv6 address."""
        return network_of(str(super().get_client_ip(request)))

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Counts the attempt, whichever of the account's names was typed. Raises ValidationError when a limit is reached."""
        login = str(credentials.get("email") or credentials.get("username") or "").lower()
        if isinstance(request.user, User):
            user: User | None = request.user  # a re-authentication
        else:
            by_name = {"email__iexact": login} if "@" in login else {"username": login}
            user = User.objects.filter(**by_name).order_by("pk").first()
        username = login if user is None else user.get_username()
        self._attempt = lockout.count(request, lockout.Kind.PASSWORD, username, user)
        if self._attempt is None:
            raise self.validation_error("too_many_login_attempts")

    def _rollback_login_failed_rl_usage(self) -> None:
        # allauth calls this after the right password.
        if self._attempt is not None:
            self._attempt.succeeded()

    def set_password(self, user: User, password: str) -> None:
        """Set one's own password; the user's other sessions end."""
        if not user.has_usable_password():
            raise PermissionDenied(
                "Users of the identity provider have no password here. Sign in through the identity provider."
            )
        request = self.request
        with transaction.atomic():
            super().set_password(user, password)
            known.forget_addresses(user.pk)
            known.remember(request, user)
            ended = sessions.end_all(user.pk, but=request.session.get(sessions.KEY))
            after = {"sessions_ended": ended}
            actor = actor_of(request, user)
            audit.record(actor=actor, action="user.password", target=user.get_username(), after=after)


class SecondFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    """Second factors: their secrets are of no use without the installation's."""

    def encrypt(self, text: str) -> str:
        """Seal a secret."""
        return box(person=_SECOND_FACTORS).encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Open it. Raises PermissionDenied when the installation's secret is another one now."""
        try:
            return box(person=_SECOND_FACTORS).decrypt(encrypted_text.encode()).decode()
        except InvalidToken as error:
            logger.warning("a second factor was sealed with a secret key that is not known any more")
            raise PermissionDenied(
                "This second factor can't be decrypted. Ask an administrator to remove it."
            ) from error

    def get_totp_issuer(self) -> str:
        """The name that authenticator apps show."""
        return "PyQMQ"


class SingleSignOnAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Users of the identity provider: who comes first time becomes a viewer, or what the provider's claim says."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Users that the identity provider authenticates can sign in."""
        return True

    def is_auto_signup_allowed(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Always without a form; an email address that another user has is rejected instead (`pre_social_login`)."""
        return True

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Refuse an address that is another user's; give who is known the role their claim says now."""
        user: User = sociallogin.user
        if sociallogin.is_existing:
            role = role_of_claims(claims_of(sociallogin))
            if role is not None:
                services.set_role_by_claim(user.pk, role, actor=SSO)
            return
        if sociallogin.state.get("process") == "connect":
            return  # a user who is signed in, and proved it again, takes this identity as a second way in
        if user.email and User.objects.filter(email__iexact=user.email).exists():
            logger.warning("single sign-on refused: a local user has the address %s", user.email)
            raise PermissionDenied("A user with this email address already exists.")

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> User:
        """Make the user."""
        user: User = sociallogin.user
        if not USERNAME.fullmatch(user.username or ""):
            user.username = ""  # allauth makes one of the address or the name
        user.role = role_of_claims(claims_of(sociallogin)) or Role.VIEWER
        with transaction.atomic():
            made: User = super().save_user(request, sociallogin, form)
            audit.record(actor=SSO, action="user.create", target=made.get_username(), after=services.described(made))
        return made


def claims_of(sociallogin: Any) -> dict[str, Any]:
    """What the identity provider said about a user: its userinfo, over the ID token."""
    data: dict[str, Any] = sociallogin.account.extra_data or {}
    return {**(data.get("id_token") or {}), **(data.get("userinfo") or {}), **data}


def role_of_claims(claims: dict[str, Any]) -> Role | None:
    """The strongest role that the claim's values stand for; viewer when none does; None when roles are not mapped."""
    if not settings.OIDC_ROLE_CLAIM:
        return None
    claimed = claims.get(settings.OIDC_ROLE_CLAIM)
    values = {str(value) for value in claimed} if isinstance(claimed, list) else {str(claimed)}
    given = {role for value, role in settings.OIDC_ROLES.items() if value in values}
    return next((role for role in _ROLES_BY_POWER if role.value in given), Role.VIEWER)
