"""Password rules against passwords that are long enough but easy to guess."""

from itertools import pairwise

from django.core.exceptions import ValidationError

from console.accounts.models import User

DISTINCT_MIN = 6
"""Different characters that a password needs, without regard to case."""
UNPREDICTABLE_MIN = 6
"""Characters that a password needs besides those which follow from the ones before."""
NAME_CHARS_MIN = 3
"""Shorter names are not looked for in passwords."""
_ROWS = (
    "`1234567890-=", "qwertyuiop[]\\", "asdfghjkl;'", "zxcvbnm,./",
    "qwertzuiop", "yxcvbnm", "azertyuiop", "qsdfghjklm", "wxcvbn",
)  # fmt: skip
_COLUMNS = ("1qaz", "2wsx", "3edc", "4rfv", "5tgb", "6yhn", "7ujm", "8ik,", "9ol.", "0p;/")
_NEIGHBOURS = frozenset(pair for line in (*_ROWS, *_COLUMNS) for text in (line, line[::-1]) for pair in pairwise(text))


class PredictablePasswordValidator:
    """Rejects few different characters, sequences, keyboard rows, repetitions, and the user's own names with little else."""

    def validate(self, password: str, user: User | None = None) -> None:
        """Raises ValidationError, with what is wrong and what to do."""
        text = password.casefold()
        if len(set(text)) < DISTINCT_MIN:
            raise ValidationError(
                f"This password has only {len(set(text))} different characters. Use at least {DISTINCT_MIN}.",
                code="password_few_characters",
            )
        rest = text
        for name in _names(user):
            rest = rest.replace(name, "")
        if rest != text and unpredictable(rest) < UNPREDICTABLE_MIN:
            raise ValidationError(
                "This password is too similar to your name. Use words unrelated to you.", code="password_is_name"
            )
        if unpredictable(text) < UNPREDICTABLE_MIN or _is_repetition(text):
            raise ValidationError(
                "This password is a sequence, a keyboard row or a repetition. Use several unrelated words.",
                code="password_is_sequence",
            )

    def get_help_text(self) -> str:
        """Returns the rule."""
        return "Your password can't be a sequence, a keyboard row, a repetition or similar to your name."


def unpredictable(text: str) -> int:
    """Returns how many characters do not follow from the ones before.

    A character follows when it continues a sequence (abc, 321), a line of keys (qwerty, 1qaz), or repeats what stands
    before it: the same character, or a part of 2 characters or more. Two such texts may alternate (a1b2c3).
    """
    return min(_unpredictable(text), _unpredictable(text[::2]) + _unpredictable(text[1::2]))


def _unpredictable(text: str) -> int:
    count = 0
    at = 0
    while at < len(text):
        repeated = _repeated_at(text, at)
        if repeated:
            at += repeated
            continue
        if at == 0 or not _follows(text[at - 1], text[at]):
            count += 1
        at += 1
    return count


def _is_repetition(text: str) -> bool:
    """Returns whether the text is one shorter text several times."""
    return (text + text).find(text, 1) != len(text)


def _repeated_at(text: str, at: int) -> int:
    """Returns the length of the longest part from here, 2 characters or more, that stands before here too; 0 for none."""
    longest = 0
    for length in range(2, min(at, len(text) - at) + 1):
        if text[at : at + length] not in text[:at]:
            break
        longest = length
    return longest


def _follows(before: str, after: str) -> bool:
    return abs(ord(after) - ord(before)) <= 1 or (before, after) in _NEIGHBOURS


def _names(user: User | None) -> list[str]:
    """The user's names and the parts of their address, the longest first."""
    if user is None:
        return []
    given = (user.username, user.first_name, user.last_name, user.email, *user.email.partition("@")[::2])
    return sorted({name.casefold() for name in given if len(name) >= NAME_CHARS_MIN}, key=len, reverse=True)
