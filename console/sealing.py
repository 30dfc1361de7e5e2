"""Encryption of secrets in the database with SECRET_KEY; what was encrypted with one of its fallbacks stays readable."""

import base64
import hmac
import json
from hashlib import blake2b, sha256
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from qmq.errors import QmqError


def derived_key(secret: str, *, key: bytes = b"", person: bytes = b"") -> bytes:
    """A key for one purpose, which `key` or `person` (blake2b's) names: it opens nothing of another purpose."""
    return blake2b(secret.encode(), digest_size=32, key=key, person=person).digest()


def box(*, key: bytes = b"", person: bytes = b"") -> MultiFernet:
    """Encrypts and decrypts for the purpose that `derived_key` is called with."""
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    keys = (derived_key(secret, key=key, person=person) for secret in secrets)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(each)) for each in keys])


def fingerprint(purpose: bytes, text: str) -> str:
    """Eight characters that change with a text and say nothing of it, for audit entries."""
    return hmac.new(derived_key(settings.SECRET_KEY, key=purpose), text.encode(), sha256).hexdigest()[:8]


class SealBroken(QmqError):
    """What was encrypted can't be read: SECRET_KEY changed and the old one is not among the fallbacks."""

    code = "secret.unreadable"


class Seal:
    """Encrypts the secrets of one kind of row.

    Args:
        purpose: what keys are derived for.
        what: what errors call the secrets.
        code: of the error that they can't be read.
    """

    def __init__(self, purpose: bytes, *, what: str, code: str) -> None:
        self._purpose = purpose
        self._what = what
        self._code = code

    def seal(self, values: dict[str, Any]) -> str:
        """Values as encrypted text."""
        return box(key=self._purpose).encrypt(json.dumps(values, sort_keys=True).encode()).decode()

    def unseal(self, text: str) -> dict[str, Any]:
        """The values again; {} for "". Raises SealBroken."""
        if not text:
            return {}
        try:
            found: dict[str, Any] = json.loads(box(key=self._purpose).decrypt(text.encode()))
        except InvalidToken as error:
            raise SealBroken(
                f"{self._what} can't be decrypted because SECRET_KEY has changed. Enter them again, or add the old key to"
                " QMQ_SECRET_KEY_FALLBACKS",
                code=self._code,
            ) from error
        return found

    def fingerprint(self, text: str) -> str | None:
        """Eight characters that change with the values and say nothing of them, for audit entries; None for ""."""
        try:
            values = self.unseal(text)
        except SealBroken:
            return "unreadable"
        if not values:
            return None
        return fingerprint(self._purpose, json.dumps(values, sort_keys=True))
