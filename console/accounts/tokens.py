"""API tokens: creation and lookup. 256 random bits, of which only a digest is stored."""

import hmac
import logging
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.utils import timezone

from console.accounts.models import ApiToken, User
from console.accounts.principals import lacks_second_factor
from console.accounts.roles import RIGHTS_OF, RIGHTS_OF_SCOPE, Role, Scope
from metaserver.errors import ChangeRefused, Conflict, NotFound
from metaserver.services import audit
from metaserver.services.changes import Actor, Change, changing

logger = logging.getLogger("qmq.accounts")

MARK = "qmq_"
"""What every token begins with, so that scanners of leaked secrets know one."""
PREFIX_CHARS = 12
USED_SECONDS = 60
"""A token's last use is written this often at most."""
LIFETIME_MAX = timedelta(days=365)
TOKENS_MAX = 50
"""Live tokens of one user."""
NAME_CHARS_MAX = 100


def new_token() -> tuple[str, str, str]:
    """A fresh token with its prefix and its digest."""
    token = MARK + secrets.token_urlsafe(32)
    return token, token[:PREFIX_CHARS], digest_of(token)


def digest_of(token: str) -> str:
    """What is stored: keyed with the installation's secret, so that a stolen table is of no use elsewhere."""
    key = blake2b(settings.SECRET_KEY.encode(), digest_size=32).digest()
    return blake2b(token.encode(), key=key, digest_size=32).hexdigest()


def find_token(token: str, address: str) -> ApiToken | None:
    """The live token this is; None for an unknown, expired or revoked one, or one whose owner may not sign in."""
    row = ApiToken.objects.select_related("owner").filter(prefix=token[:PREFIX_CHARS]).first()
    digest = row.digest if row is not None else "0" * 64
    if not hmac.compare_digest(digest, digest_of(token)) or row is None:
        return None
    now = timezone.now()
    if row.revoked_at is not None or row.expires_at <= now or not row.owner.is_active:
        return None
    if row.last_used_at is None or (now - row.last_used_at).total_seconds() > USED_SECONDS:
        _note_use(row, now, address)
    return row


def _note_use(row: ApiToken, now: datetime, address: str) -> None:
    try:
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now, last_used_from=address[:100])
    except DatabaseError as error:
        # One that takes no writes for a while: a look is no reason to refuse.
        logger.warning("the use of token %s can't be noted: %s", row.prefix, error)


# --- making and revoking ----------------------------------------------------------------------------------------------


def described(row: ApiToken) -> dict[str, Any]:
    """A token as audit entries show it; nothing of what is secret in it."""
    return {
        "name": row.name,
        "prefix": row.prefix,
        "scopes": sorted(row.scopes),
        "expires_at": row.expires_at.isoformat(timespec="seconds"),
        "is_revoked": row.revoked_at is not None,
    }


def create_token(
    owner: User,
    name: str,
    scopes: Iterable[str],
    lifetime: timedelta,
    *,
    actor: Actor,
    reason: str = "",
    dry_run: bool = False,
) -> tuple[Change, str | None, ApiToken | None]:
    """Create a token in the owner's name and return it; a dry run returns none.

    Raises:
        ChangeRefused: an illegal name, lifetime or scope, or a scope beyond the owner's role.
        Conflict: the owner lacks a required second factor, or has TOKENS_MAX live tokens.
    """
    wanted = sorted(set(scopes))
    wrong: dict[str, str] = {}
    if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
        wrong["name"] = f"must be 1 to {NAME_CHARS_MAX} printable characters"
    if not timedelta(0) < lifetime <= LIFETIME_MAX:
        wrong["expires_in_days"] = f"must be at most {LIFETIME_MAX.days} days"
    if not wanted or not set(wanted) <= set(Scope):
        wrong["scopes"] = f"must be some of {', '.join(Scope)}"
    else:
        beyond = [scope for scope in wanted if not RIGHTS_OF_SCOPE[Scope(scope)] <= RIGHTS_OF[Role(owner.role)]]
        if beyond:
            wrong["scopes"] = f"role {owner.role} does not include {', '.join(beyond)}"
    if wrong:
        text = "; ".join(f"{key}: {value}" for key, value in wrong.items())
        raise ChangeRefused(text, code="token.invalid", fields=wrong)
    token, prefix, digest = new_token()
    with changing(dry_run=dry_run):
        now = timezone.now()
        User.objects.select_for_update().get(pk=owner.pk)  # two concurrent requests must not exceed the limit
        if lacks_second_factor(owner):
            raise Conflict(
                f"{owner.username} must set up two-factor authentication before creating tokens.",
                code="token.second_factor_missing",
            )
        if ApiToken.objects.filter(owner=owner, revoked_at=None, expires_at__gt=now).count() >= TOKENS_MAX:
            raise Conflict(
                f"{owner.username} has {TOKENS_MAX} tokens, the maximum. Revoke some first.", code="token.too_many"
            )
        row = ApiToken.objects.create(
            name=name, owner=owner, prefix=prefix, digest=digest, scopes=wanted, expires_at=now + lifetime
        )
        after = described(row)
        if dry_run:
            after["prefix"] = None
        audit.record(
            actor=actor, action="token.create", target=f"{owner.username}/{prefix}", reason=reason, after=after
        )
        change = Change(name, None, after)
    return (change, None, None) if dry_run else (change, token, row)


def revoke_token(token_id: int, *, actor: Actor, reason: str = "", dry_run: bool = False) -> Change:
    """Make a token useless at once. A revoked one stays revoked. Raises NotFound."""
    with changing(dry_run=dry_run):
        row = ApiToken.objects.select_for_update().filter(pk=token_id).first()
        if row is None:
            raise NotFound(f"Token {token_id} not found.", code="token.unknown")
        before = described(row)
        if row.revoked_at is None:
            row.revoked_at = timezone.now()
            row.save(update_fields=["revoked_at"])
            target = f"{row.owner.username}/{row.prefix}"
            audit.record(
                actor=actor, action="token.revoke", target=target, reason=reason, before=before, after=described(row)
            )
        return Change(row.name, before, described(row))
