"""Secrets of channels in the database: encrypted with a key made from SECRET_KEY, readable with its fallbacks too."""

import base64
import hmac
import json
from hashlib import blake2b, sha256
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from qmq.errors import QmqError

_PURPOSE = b"qmq alert channels"


class SealBroken(QmqError):
    """What was encrypted can't be read: SECRET_KEY changed and the old one is not among the fallbacks."""

    code = "alert_channel.unreadable"


def seal(values: dict[str, Any]) -> str:
    """Values as encrypted text."""
    return _fernet().encrypt(json.dumps(values, sort_keys=True).encode()).decode()


def unseal(text: str) -> dict[str, Any]:
    """The values again; {} for "". Raises SealBroken."""
    if not text:
        return {}
    try:
        found: dict[str, Any] = json.loads(_fernet().decrypt(text.encode()))
    except InvalidToken as error:
        raise SealBroken(
            "the channel's secrets can't be decrypted because SECRET_KEY has changed. Enter them again, or add the old key to"
            " QMQ_SECRET_KEY_FALLBACKS"
        ) from error
    return found


def fingerprint(values: dict[str, Any]) -> str:
    """Eight characters that change with the values and say nothing of them; for audit entries."""
    text = json.dumps(values, sort_keys=True).encode()
    return hmac.new(_key(settings.SECRET_KEY), text, sha256).hexdigest()[:8]


def _key(secret: str) -> bytes:
    return blake2b(secret.encode(), digest_size=32, key=_PURPOSE).digest()


def _fernet() -> MultiFernet:
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(_key(secret))) for secret in secrets])
