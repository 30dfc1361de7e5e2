"""Encryption of secrets in the database with SECRET_KEY; what was encrypted with one of its fallbacks stays readable."""

import base64
from hashlib import blake2b

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings


def derived_key(secret: str, *, key: bytes = b"", person: bytes = b"") -> bytes:
    """A key for one purpose, which `key` or `person` (blake2b's) names: it opens nothing of another purpose."""
    return blake2b(secret.encode(), digest_size=32, key=key, person=person).digest()


def box(*, key: bytes = b"", person: bytes = b"") -> MultiFernet:
    """Encrypts and decrypts for the purpose that `derived_key` is called with."""
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    keys = (derived_key(secret, key=key, person=person) for secret in secrets)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(each)) for each in keys])
