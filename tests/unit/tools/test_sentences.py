"""Each sentence that the API and nodes send to the console in English has a Chinese one."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.console.sentences import has_chinese
from tools.prose import PROJECT

FOLDERS = (
    "api", "broker_node", "console", "delay_node", "metaserver", "qmq/formats", "qmq/net", "qmq/outbox", "qmq_node",
    "spark_analytics",
)  # fmt: skip
NOT_SHOWN = (
    # Of what starts processes, and of commands.
    "console/launcher", "console/management", "metaserver/management", "console/settings.py", "console/checks.py",
    # What a process reads of its own files and of Redis: it is logged, and read again.
    "console/snapshot", "broker_node/storage", "delay_node/segments", "qmq_node/log/tails_file.py",
)  # fmt: skip
NOT_SENT = {
    "ArgumentTypeError", "AttributeError", "CommandError", "DerivedStateWrong", "ExceptionGroup", "GaveUp", "Http404",
    "ImproperlyConfigured", "LocalProtocolError", "LogError", "ProtocolError", "RuntimeError", "SchemaError",
    "SettingError", "StructError", "TypeError", "ValueError",
}  # fmt: skip
"""Errors that no viewer sees: wrong settings, damaged files, and mistakes of a program."""


WORDS_MIN = 2
"""With fewer words of its own, a text consists of others: "{}: {}"."""
OF_KINDS = {"must be {}"}
"""What a value of a type must be is a sentence for each type."""


def _template(node: ast.expr) -> str:
    """A text of the code with `{}` for each of its values; "" for another expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join("{}" if isinstance(part, ast.FormattedValue) else _template(part) for part in node.values)
    return ""


def _raised(path: Path) -> Iterator[tuple[str, str]]:
    """What errors of a module say, with their names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func).rpartition(".")[2]
            arguments = [*node.exc.args, *(keyword.value for keyword in node.exc.keywords)]
            texts = [text for argument in arguments if " " in (text := _template(argument))]
            yield from ((name, text) for text in texts if len(re.findall(r"\b[a-z]{2,}\b", text)) >= WORDS_MIN)


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_errors_say_has_a_chinese_sentence(folder: str) -> None:
    modules = [path for path in (PROJECT / folder).rglob("*.py") if "migrations" not in path.parts]
    shown = [path for path in modules if not str(path.relative_to(PROJECT)).startswith(NOT_SHOWN)]
    assert shown
    missing = {
        text: f"{path.relative_to(PROJECT)}: {name}"
        for path in shown
        for name, text in _raised(path)
        if name not in NOT_SENT and text not in OF_KINDS and not has_chinese(text.replace("{}", "x"))
    }
    assert missing == {}, "add them to frontend/src/i18n/zh/sentences.json"


def test_values_of_sentences_are_named_once_and_have_words_between() -> None:
    texts: dict[str, str] = json.loads((PROJECT / "frontend/src/i18n/zh/sentences.json").read_text())
    assert list(texts) == sorted(texts)
    names = {sentence: re.findall(r"\{(\w+)\}", sentence) for sentence in texts}
    assert [sentence for sentence, found in names.items() if len(found) != len(set(found))] == []
    assert [sentence for sentence in texts if "}{" in sentence] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("connection refused", True),
        ("Connection refused.", True),
        ("node n1: connection refused; node n2: no response within 5 s", True),
        ("'a: b' must be true or false", True),
        ("is_live: 'maybe' must be true or false", True),
        ("the moon is full", False),
        ("is_live: the moon is full", False),
        ("connection refused; the moon is full", False),
    ],
)
def test_texts_are_known_as_the_console_knows_them(text: str, expected: bool) -> None:
    assert has_chinese(text) is expected
