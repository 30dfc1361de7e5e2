"""What a user may be called."""

import re

from django.core.exceptions import ValidationError

USERNAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
"""No '@' (a username can't equal another user's address), no white space, and no capitals that could look like another name."""
RESERVED = frozenset({"metaserver", "system", "single-sign-on"})
"""Actors of the audit log that are no users."""


def username_problem(name: str) -> str:
    """Return why this is not a valid username, or ""."""
    if not USERNAME.fullmatch(name):
        return "must be 1 to 60 characters from a-z, 0-9, '.', '_' and '-', starting with a letter or digit"
    return f"{name} is reserved for the audit log" if name in RESERVED else ""


def check_username(name: str) -> None:
    """The same for allauth. Raises ValidationError."""
    text = username_problem(name)
    if text:
        raise ValidationError(text)


USERNAME_VALIDATORS = [check_username]
