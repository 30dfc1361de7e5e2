"""What `qmq` prints: no text of others acts on a terminal, and every encoding can express it."""

import ast
import io
import json
import os
import sys
from pathlib import Path

import pytest

from qmq import cli
from qmq.cli.output import Lines, json_text, say, say_json, table, warn
from qmq.words import UNPRINTABLE

TEXTS = [
    "A\x1b]0;title\x07\x1b[2J",
    "a\r\nmessage 1 delivered",
    "\x9b31m\x7f\x85",
    "\u202egnp.exe\u2066\u2028\u061c",
    "ü 主题 🙂",
    "\ud800",
    'quotes " and \\ and \\u009b',
]
ENCODINGS = ["utf-8", "latin-1", "ascii", "cp1252", "gb18030", "shift_jis"]


def stream(encoding: str, monkeypatch: pytest.MonkeyPatch, name: str = "stdout") -> io.BytesIO:
    """Standard output, or the other one, with an encoding whose errors are raised."""
    found = io.BytesIO()
    monkeypatch.setattr(sys, name, io.TextIOWrapper(found, encoding, "strict", write_through=True))
    return found


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_lines_json_and_tables_are_written_in_every_encoding(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = stream(encoding, monkeypatch, "stderr")
    for text in TEXTS:
        written = stream(encoding, monkeypatch)
        say(text)
        warn(text)
        say_json({"key": text}, indent=2)
        table(["heading"], [[text], [None]])
        lines = written.getvalue().decode(encoding).split("\n")
        assert json.loads("\n".join(lines[1:4])) == {"key": text}
        assert len(lines) == 8
        assert not any(UNPRINTABLE.search(line) for line in lines)
    assert len(errors.getvalue().decode(encoding).split("\n")) == len(TEXTS) + 1


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", TEXTS)
def test_a_json_line_is_one_line_of_the_same_json(text: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = stream(encoding, monkeypatch)
    lines = Lines()
    (part,) = lines.parts({text: [text]})
    lines.write(part)
    assert json.loads(written.getvalue().decode(encoding)) == {text: [text]}
    assert not UNPRINTABLE.search(written.getvalue().decode(encoding).removesuffix("\n"))
    assert lines.taken == lines.written == len(written.getvalue())
    assert not lines.is_closed()


def test_json_stays_readable_where_the_encoding_can_express_it() -> None:
    assert json_text("ü 主题", "utf-8") == '"ü 主题"'
    assert json_text("ü", "latin-1") == '"ü"'
    assert json_text("主", "latin-1") == '"\\u4e3b"'


def test_a_line_is_taken_when_it_has_left_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with open(writer, "w", encoding="utf-8") as output:
        monkeypatch.setattr(sys, "stdout", output)
        lines = Lines()
        for value in ({"a": "ü"}, {"b": 2}):
            (part,) = lines.parts(value)
            lines.write(part)
        assert (lines.written, lines.taken, lines.is_closed(), lines.has_room()) == (21, 0, False, True)
        assert os.read(reader, 11) == b'{"a": "\xc3\xbc"}'
        assert lines.taken == 11
        long = lines.parts("x" * 10_000)
        assert [len(part) for part in long] == [4096, 4096, 10_003 - 2 * 4096]
        while lines.has_room():
            lines.write(long[0])
        assert not lines.is_closed()
        assert lines.written - lines.taken > 50_000
        os.close(reader)
        assert lines.is_closed()
        with pytest.raises(BrokenPipeError):
            lines.write(long[0])
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


def test_commands_print_through_one_module_alone() -> None:
    for path in Path(cli.__file__).parent.glob("*.py"):
        if path.name == "output.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            written = ast.unparse(node) if isinstance(node, ast.Call | ast.Attribute) else ""
            assert not written.startswith(("print(", "sys.stdout", "sys.stderr")), f"{path.name}: {written[:80]}"
