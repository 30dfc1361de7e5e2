"""Commands in pages exist with the options that pages give them, and programs in pages are run by a test."""

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest
from django.core.management import get_commands

from broker_node.options import BrokerOptions
from delay_node.options import DelayOptions
from metaserver.options import MetaOptions
from qmq import cli
from qmq.options import parse_options
from tests.served.docs.pages import PAGE as CLIENT_GUIDE
from tests.served.testing.pages import PAGE as HOW_TO_TEST
from tests.served.up.pages import PAGES as RUN_PAGES
from tools.prose import PROJECT, markdown_pages

PAGES = {
    str(path.relative_to(PROJECT)): path.read_text()
    for path in markdown_pages(PROJECT)
    if path.name not in ("CHANGELOG.md", "PLAN.md")
}
DAEMONS = {"broker_node": BrokerOptions, "delay_node": DelayOptions, "metaserver": MetaOptions}
MAKE_TARGETS = set(re.findall(r"^([a-z][\w-]*):", (PROJECT / "Makefile").read_text(), re.M))
RUN_ELSEWHERE = {
    "docs/testing.md": "shows parts of tests",
    "docs/reference/spark.md": "needs Spark; test_selection.py checks its options",
}
"""Pages whose programs no test runs as they are, with the reason."""
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.S | re.M)
_INLINE = re.compile(r"`([^`]+)`")
_PLACEHOLDER = re.compile(r"\.\.\.|…|\[|\{")


def _block_commands(text: str) -> Iterator[list[str]]:
    """The commands in the text and sh blocks of a page, without settings before them."""
    for language, block in _FENCE.findall(text):
        if language not in ("text", "sh", ""):
            continue
        for line in re.sub(r"\\\n", " ", block).splitlines():
            if re.match(r"\s*(?:[A-Z_]+=\S+ )*(?:qmq|python -m \w+|make|qmq-console) ", line):
                words = shlex.split(line.split("|")[0], comments=True)
                yield [word for number, word in enumerate(words) if number or not re.match(r"[A-Z_]+=", word)]


def _inline_commands(text: str) -> Iterator[list[str]]:
    """The commands within sentences, which may lack arguments."""
    for code in _INLINE.findall(_FENCE.sub("", text)):
        code = " ".join(code.split("|")[0].split())
        if re.match(r"(?:qmq|make|qmq-console) [a-z]", code) and not _PLACEHOLDER.search(code):
            yield shlex.split(code)


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(actions[0].choices) if actions else {}


def _wrong_qmq(words: list[str]) -> str:
    """What a command of `qmq` names that does not exist; "" if all of it does. Arguments may be missing."""
    parser = cli.command_parser()
    while (inner := _subparsers(parser)) and words:
        if words[0] not in inner:
            return words[0] if not words[0].startswith("-") or words[0] not in parser._option_string_actions else ""
        parser, words = inner[words[0]], words[1:]
    options = {word.partition("=")[0] for word in words if word.startswith("--")}
    return " ".join(sorted(options - set(parser._option_string_actions)))


def _wrong(words: list[str]) -> str:
    """What a command names that does not exist."""
    if words[0] == "qmq":
        return _wrong_qmq(words[1:])
    if words[0] == "qmq-console":
        return "" if words[1] in get_commands() else words[1]
    if words[0] == "make":
        return "" if words[1] in MAKE_TARGETS else words[1]
    if words[2] in DAEMONS:
        parse_options(DAEMONS[words[2]], words[3:], {"QMQ_META_DATABASE_URL": ""}, prog=words[2], process="")
    return ""


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_a_page_exist(name: str) -> None:
    commands = [*_block_commands(PAGES[name]), *_inline_commands(PAGES[name])]
    assert {" ".join(words): wrong for words in commands if (wrong := _wrong(words))} == {}


def test_wrong_commands_are_found() -> None:
    page = (
        "`qmq status`, `qmq statsu`, `qmq delayed lits`, `qmq produce orders --text x`, `make uq`\n\n"
        "```text\nQMQ_META=a qmq lag orders\nqmq consume a b --group c | head\nqmq-console migarte\n```\n"
    )
    commands = [*_block_commands(page), *_inline_commands(page)]
    wrong = [wrong for words in commands if (wrong := _wrong(words))]
    assert wrong == ["--group", "migarte", "statsu", "lits", "--text", "uq"]


@pytest.mark.parametrize("name", PAGES)
def test_programs_of_a_page_are_run_by_a_test(name: str) -> None:
    has_programs = any(language in ("sh", "python") for language, _ in _FENCE.findall(PAGES[name]))
    is_run = name in RUN_PAGES or PAGES[name] in (CLIENT_GUIDE, HOW_TO_TEST)
    assert not has_programs or is_run or name in RUN_ELSEWHERE
