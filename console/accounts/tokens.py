"""Tokens of machines: made, found, told apart. 256 random bits; only a digest is kept."""

import hmac
import secrets
from hashlib import blake2b

from django.conf import settings
from django.utils import timezone

from console.accounts.models import ApiToken

MARK = "qmq_"
"""What every token begins with, so that scanners of leaked secrets know one."""
PREFIX_CHARS = 12
USED_SECONDS = 60
"""A token's last use is written this often at most."""


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
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now, last_used_from=address[:100])
    return row
