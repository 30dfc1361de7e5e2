"""Notifications in words."""

import json
from pathlib import Path

import pytest

from console.alerts.builtin import BUILTIN
from console.alerts.rules import Kind
from console.alerts.wording import RULES_ZH, Language, words_of

TEXTS = Path(__file__).parents[3] / "frontend/src/i18n"


def test_the_names_of_built_in_rules_are_those_of_the_console():
    names = {
        language: json.loads((TEXTS / language / "alerts.json").read_text())["rule_name"] for language in ("en", "zh")
    }
    assert {key: values["name"] for key, values in BUILTIN.items()} == names["en"]
    assert names["zh"] == RULES_ZH


def test_a_rule_that_was_renamed_keeps_its_name():
    assert words_of("zh").rule("Corrupted messages") == "消息损坏"
    assert words_of("zh").rule("Broken disks of ours") == "Broken disks of ours"


@pytest.mark.parametrize(
    ("kind", "value", "en", "zh"),
    [
        (Kind.LAG, 12345.0, "12,345 messages", "12,345 条"),
        (Kind.TIME_LAG, 59.5, "59.50 s", "59.50 秒"),
        (Kind.TIME_LAG, 3_725.9, "1 h 2 min", "1 小时 2 分钟"),
        (Kind.SCRUB, 604_800.0, "7 d", "7 天"),
        (Kind.DISK_STUCK, 3.5, "3.50 s", "3.50 秒"),
        (Kind.GROUP_STATE, 2.0, "offline", "离线"),
        (Kind.GROUP_STATE, 9.0, "offline", "离线"),
        (Kind.DISK, 85.123, "85.12%", "85.12%"),
        (Kind.UNKNOWN, 1.0, "yes", "是"),
        (Kind.REPLICATION, 0.0, "no", "否"),
        (Kind.LAG, None, "not measurable", "无法测量"),
        ("test", 0.0, "0", "0"),
    ],
)
def test_values_have_units(kind: str, value: float | None, en: str, zh: str):
    assert words_of("en").value(kind, value) == en
    assert words_of("zh").value(kind, value) == zh


@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize("kind", list(Kind))
def test_each_kind_has_a_text_in_each_language(kind: Kind, language: Language):
    text = words_of(language).value(kind, 2.0)
    assert text not in ("", "2")
