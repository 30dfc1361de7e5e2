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


LONG = "word " * 24 + "more"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"{LONG}\n", [1]),
        (f"short\n\n- {LONG}\n", [3]),
        (f"> {LONG}", [1]),
        ("x" * 200, []),
        (f"- [{'x' * 130}](a.md)", []),
        (LONG[:120], []),
        (f"| {LONG} | {LONG} |", []),
        (f"## {LONG}", []),
        (f"```sh\n{LONG}\n```\n{LONG}", [4]),
        (f"<!-- generated: commands -->\n{LONG}\n<!-- end of generated -->\n{LONG}", [4]),
        (f"This page is generated from the code.\n\n{LONG}", []),
    ],
)
def test_lines_of_prose_have_at_most_120_characters(text: str, lines: list[int]) -> None:
    assert [one.place for one in prose.check_lines("a.md", text)] == [f"a.md:{number}" for number in lines]


def test_links_to_missing_files_and_headings_are_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text(
        "# A page\n\n## Part `one`, and two\n\n[up](../README.md) [b](b.md) `[c](c.md)`\n"
    )
    right = "[a](docs/a.md) [part](docs/a.md#part-one-and-two) [here](#start) [web](https://example.com/x) [docs](docs)"
    (tmp_path / "README.md").write_text(f"# Start\n\n{right}\n\n[x](docs/a.md#part) [y\nz](a.md) [s](#end)\n")
    assert [(one.place, one.text) for one in prose.check_links(tmp_path)] == [
        ("README.md", "link to docs/a.md#part: there is no such heading"),
        ("README.md", "link to a.md: there is no such file"),
        ("README.md", "link to #end: there is no such heading"),
        ("docs/a.md", "link to b.md: there is no such file"),
    ]
