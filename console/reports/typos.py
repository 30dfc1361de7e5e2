"""Names that a text with typing errors can mean: the words of the text begin words of the name, with a few edits.

`frontend/src/app/jump/typos.ts` takes the same texts for pages and actions.
"""

import itertools
import re

WORD_CHARS_MAX = 32
"""Longer words are searched as they are."""
ONE_EDIT_FROM = 4
TWO_EDITS_FROM = 8
"""Characters of a word that can have one edit, and two."""
_WORDS = re.compile(r"[^\W_]+")


def edits_allowed(word: str) -> int:
    """Return how many edits a word can have: characters that are wrong, missing or too many, or two that are swapped."""
    if len(word) > WORD_CHARS_MAX or len(word) < ONE_EDIT_FROM:
        return 0
    return 2 if len(word) >= TWO_EDITS_FROM else 1


def distance(text: str, name: str) -> int | None:
    """Return the edits between a text and a name, in lower case both; None if a word of the text has too many.

    Each word of the text counts against the word of the name, or the end of the name from a word on, whose beginning is
    closest to it.
    """
    begins = [match.start() for match in _WORDS.finditer(name)]
    total = 0
    for word in text.split():
        allowed = edits_allowed(word)
        if word in name:
            continue
        best = min((_edits(word, name[begin : begin + len(word) + allowed]) for begin in begins), default=allowed + 1)
        if best > allowed:
            return None
        total += best
    return total


def pairs(word: str) -> list[str]:
    """Return the pairs of neighbouring characters of a word, each once. A name within `edits_allowed` has most of them."""
    return list(dict.fromkeys(first + second for first, second in itertools.pairwise(word)))


def pairs_needed(word: str) -> int:
    """Return how many of its pairs a name has at least: an edit breaks two, a swap three."""
    return max(1, len(pairs(word)) - 3 * edits_allowed(word))


def _edits(word: str, name: str) -> int:
    """Return the edits between a word and the beginning of a name that is closest to it."""
    before: list[int] = []
    row = list(range(len(name) + 1))
    for i, char in enumerate(word, 1):
        before, last, row = row, before, [i]
        for j, other in enumerate(name, 1):
            cost = min(row[j - 1] + 1, before[j] + 1, before[j - 1] + (char != other))
            if i > 1 and j > 1 and char == name[j - 2] and word[i - 2] == other:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return min(row)
