"""The check of words: which texts of a source file it reads, and which words it finds."""

from pathlib import Path

import pytest

from tools import prose

SOURCE = '''"""Docstring of a module."""
import logging

logger = logging.getLogger("a")


def run() -> None:
    """Docstring of a function.

    Its second paragraph.
    """
    logger.info("a log message")
    raise ValueError(f"a text with {run} in it")
'''


def test_strings_and_docstrings_are_read_and_log_messages_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(SOURCE)
    assert sorted((line, " ".join(text.split())) for line, text in prose.source_texts(path)) == [
        (1, "Docstring of a module."),
        (8, "Docstring of a function. Its second paragraph."),
        (13, "a text with"),
        (13, "in it"),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Nobody was\n  told.", ["nobody", "told"]),
        ("Dead\nletters are listed.", []),
        ("The folder is whole.", []),
    ],
)
def test_words_are_found_in_any_case_and_over_line_ends(text: str, found: list[str]) -> None:
    words = {"nobody": "no one", "told": "sent", "letters": "dead letter", "who": "the role"}
    assert [str(one).split('"')[1] for one in prose.check_words("a.py:1", text, words)] == found
