"""Texts for people."""

import unicodedata

from qmq.words import printable

UNCHANGED = "order-1 ü 主题 🙂 \\x1b \u200b\ufeff\u00a0"


def test_characters_that_act_on_a_terminal_or_forge_lines_are_escaped() -> None:
    assert printable("A\x1b]0;title\x07\r\n\tB\x7f\x9b31m\u202e\u2028\ud800") == (
        r"A\x1b]0;title\x07\x0d\x0a\x09B\x7f\x9b31m\u202e\u2028\ud800"
    )
    assert printable(UNCHANGED) == UNCHANGED


def test_no_control_bidirectional_or_separator_character_passes() -> None:
    for code in range(0x110000):
        character = chr(code)
        acts = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(character) in (
            *("LRE", "RLE", "PDF", "LRO", "RLO"), *("LRI", "RLI", "FSI", "PDI"),
        )  # fmt: skip
        marks = character in "\u061c\u200e\u200f"
        assert (printable(character) != character) is (acts or marks), hex(code)
