"""Reasons: a code with values, a sentence in each language, and what of them goes over the wire."""

import copy
import json
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

from metaserver.services.notes import NoteCode
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.protocol.limited_kinds import NOTE_CHARS_MAX
from qmq.protocol.reasons import Code, Reason, Sentence, joined
from tests.unit.qmq.protocol.replication_examples import REGISTER

TEXTS_OF_CONSOLE = Path(__file__).parents[4] / "frontend/src/i18n"
WAIT = Reason.of(Code.NOT_CONNECTED, seconds=3.2)
NODE = Reason.of(Code.NODE_WITH, node="b", why=WAIT)


def catalogue(language: str, name: str) -> dict[str, str]:
    texts: dict[str, str] = json.loads((TEXTS_OF_CONSOLE / language / f"{name}.json").read_text())["code"]
    return texts


@pytest.mark.parametrize(("codes", "name"), [(Code, "reasons"), (NoteCode, "notes")])
def test_every_code_has_a_text_with_the_same_values_in_each_language(codes: type[Sentence], name: str) -> None:
    written = {code: re.sub(r"\{(\w+)\}", r"{{\1}}", code.sentence) for code in codes}
    assert catalogue("en", name) == written, "the console says what nodes and commands say"
    names = {code: set(re.findall(r"\{\{(\w+)\}\}", text)) for code, text in written.items()}
    assert {code: set(re.findall(r"\{\{(\w+)\}\}", text)) for code, text in catalogue("zh", name).items()} == names


def test_no_note_has_the_code_of_a_reason() -> None:
    assert set(Code).isdisjoint(NoteCode), "the console looks for a code in the texts of both"


def test_a_reason_is_its_sentence() -> None:
    assert NODE == "node b: it has not been connected for 3.2 s"
    assert (NODE.code, NODE.values["why"]) == (Code.NODE_WITH, WAIT)
    assert not Reason()
    assert joined([]) == ""
    assert joined(["a text"]) == "a text"
    both = joined([NODE, WAIT, Reason("a text")])
    assert both == f"{NODE}; {WAIT}; a text"
    assert both.code == Code.AND


@pytest.mark.parametrize("reason", [NODE, Reason("a text"), Reason("later", "of_a_later_version", {"n": 1})])
def test_a_reason_is_the_same_after_it_was_sent_stored_or_copied(reason: Reason) -> None:
    others = [
        Reason.received(reason.sent(NOTE_CHARS_MAX)),
        Reason.from_json(json.loads(json.dumps(reason.as_json()))),
        NodeRegisterRequest.decode(_registration(reason)).problems[0],
        copy.deepcopy(reason),
        pickle.loads(pickle.dumps(reason)),
    ]
    assert [(str(other), other.as_json()) for other in others] == [(str(reason), reason.as_json())] * len(others)


def described(values: str) -> str:
    return f'{{"code": "a", "values": {values}, "text": "b"}}'


NO_REASONS = (
    "", "{", "{}", "[]", '{"code": 1}', "{" * 500, described("[]"), described('{"n": NaN}'), described('{"n": [1]}'),
    described('{"n": null}'), described('{"n": "\\ud800"}'), described('{"n": {}}'), described("{}").replace('"b"', "1"),
)  # fmt: skip


@pytest.mark.parametrize("text", NO_REASONS)
def test_a_text_that_is_no_reason_is_the_sentence(text: str) -> None:
    found = Reason.received(text)
    assert (str(found), found.code, found.values) == (text, "", {})


def test_a_reason_that_is_too_long_is_sent_as_its_sentence() -> None:
    long = Reason.of(Code.NODE_WITH, node="b", why=Reason("x" * 300))
    (found,) = NodeRegisterRequest.decode(_registration(long)).problems
    assert (str(found), found.code) == (str(long), "")


def _registration(reason: Reason) -> bytes:
    encoded: bytes = replace(REGISTER, problems=(reason,)).encode()
    return encoded
