"""The check of words in names: what it finds in Python and TypeScript, and what it leaves alone."""

from pathlib import Path

import pytest

from tools import identifiers, prose

WORDS = {"told": "sent", "letter": "dead_letter", "beat": "heartbeat"}
GLOSSARY = "## Names in code\n\n| Not | But |\n|---|---|\n| told, letter | sent |\n"


@pytest.mark.parametrize(
    "source",
    [
        "told_at = 1",
        "def was_told(): ...",
        "class NotTold: ...",
        "def f(told): ...",
        "self.told = 1",
        "import a as told",
        "try: ...\nexcept E as told: ...",
        "match a:\n    case [*told]: ...",
        "{told for told in a}",
        "with a as (b, told): ...",
        "def f():\n    if (told := 1): ...",
        "told: int",
    ],
)
def test_every_kind_of_binding_is_read(source: str) -> None:
    names = [name for _, name in identifiers.bound_names(source)]
    assert [name for name in names if identifiers.forbidden(name, WORDS) == "told"]


@pytest.mark.parametrize("source", ["file.told()", "print(told)", "f(told=1)", "a = 'told'", "# told"])
def test_names_that_are_only_used_are_not_ours(source: str) -> None:
    assert [name for _, name in identifiers.bound_names(source) if name != "a"] == []


def test_typescript_is_read_without_comments_and_strings() -> None:
    source = "const told = 1; // said\n/* asked */ f(\"heard\", 'looks', `tell ${isOwed} beat`);\n<A letterKey={b} />"
    assert list(identifiers.used_names(source)) == [
        (1, "const"), (1, "told"), (2, "f"), (2, "isOwed"), (3, "A"), (3, "letterKey"), (3, "b"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("isLetterTold", "told"), ("LETTERS", None), ("HTTPLetter", "letter"), ("dead_letter_count", None),
        ("DeadLetterDrawer", None), ("heartbeat_at", None), ("beat_at", "beat"), ("is_told", None), ("untold", None),
    ],
)  # fmt: skip
def test_names_are_split_into_words_and_terms_of_the_glossary_pass(name: str, word: str | None) -> None:
    assert identifiers.forbidden(name, WORDS) == word


def test_a_finding_names_the_place_and_the_word_to_use(tmp_path: Path) -> None:
    (tmp_path / "qmq").mkdir()
    (tmp_path / "qmq" / "a.py").write_text("fine = 1\ntold = 2\ntold = 3\n")
    (tmp_path / "frontend" / "src").mkdir(parents=True)
    (tmp_path / "frontend" / "src" / "b.tsx").write_text("const aLetter = 1;\n")
    (tmp_path / "frontend" / "src" / "b.test.tsx").write_text("const told = 1;\n")
    found = prose.check_names(tmp_path, prose.forbidden_words(GLOSSARY, identifiers.SECTION))
    assert [str(one) for one in found] == [
        'qmq/a.py:2: "told" in the name told; use: sent',
        'frontend/src/b.tsx:1: "letter" in the name aLetter; use: sent',
    ]


def test_every_allowed_name_has_a_reason_and_contains_a_word_of_the_glossary() -> None:
    words = prose.forbidden_words((prose.PROJECT / prose.GLOSSARY).read_text(), identifiers.SECTION)
    for name, reason in identifiers.ALLOWED.items():
        assert reason
        assert set(identifiers.words_of(name).split("_")) & set(words), name
