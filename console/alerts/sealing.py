"""Secrets of channels in the database: encrypted with a key made from SECRET_KEY, readable with its fallbacks too."""

import hmac
import json
from hashlib import sha256
from typing import Any

from cryptography.fernet import InvalidToken
from django.conf import settings

from console.sealing import box, derived_key
from qmq.errors import QmqError

_PURPOSE = b"qmq alert channels"


class SealBroken(QmqError):
    """What was encrypted can't be read: SECRET_KEY changed and the old one is not among the fallbacks."""

    code = "alert_channel.unreadable"


def seal(values: dict[str, Any]) -> str:
    """Values as encrypted text."""
    return box(key=_PURPOSE).encrypt(json.dumps(values, sort_keys=True).encode()).decode()


def unseal(text: str) -> dict[str, Any]:
    """The values again; {} for "". Raises SealBroken."""
    if not text:
        return {}
    try:
        found: dict[str, Any] = json.loads(box(key=_PURPOSE).decrypt(text.encode()))
    except InvalidToken as error:
        raise SealBroken(
            "the channel's secrets can't be decrypted because SECRET_KEY has changed. Enter them again, or add the old key to"
            " QMQ_SECRET_KEY_FALLBACKS"
        ) from error
    return found


def fingerprint(values: dict[str, Any]) -> str:
    """Eight characters that change with the values and say nothing of them; for audit entries."""
    text = json.dumps(values, sort_keys=True).encode()
    return hmac.new(derived_key(settings.SECRET_KEY, key=_PURPOSE), text, sha256).hexdigest()[:8]
