"""The node secret: where it comes from, what is refused, two valid ones."""

import os
from pathlib import Path

import pytest

from qmq.errors import SettingError
from qmq.net.node_secret import NodeSecret, make_secret_file

OLD, NEW = "old-" + "a" * 32, "new-" + "b" * 32


def test_the_first_signs_and_both_are_accepted() -> None:
    before, between, after = (NodeSecret.parse(text, "x") for text in (OLD, f"{NEW}, {OLD}", f"{NEW}\n"))
    assert between.sign("c", b"part") == after.sign("c", b"part") != before.sign("c", b"part")
    for secret in (before, after):
        assert between.signer_of(secret.sign("c", b"part"), "c", b"part") is not None
    assert before.signer_of(after.sign("c", b"part"), "c", b"part") is None
    signer = between.signer_of(before.sign("c", b"part"), "c", b"part")
    assert signer is not None
    assert signer.sign("c", b"x") == before.sign("c", b"x"), "the one that made the signature"


def test_a_signature_holds_for_its_context_and_parts_only() -> None:
    secret = NodeSecret.parse(OLD, "x")
    signature = secret.sign("c", b"ab", b"c")
    for context, parts in (("d", (b"ab", b"c")), ("c", (b"a", b"bc")), ("c", (b"abc",)), ("c", (b"ab", b"c", b""))):
        assert secret.signer_of(signature, context, *parts) is None
    assert secret.signer_of(signature[:-1], "c", b"ab", b"c") is None
    assert secret.signer_of(b"", "c", b"ab", b"c") is None


@pytest.mark.parametrize("text", ["", " , ", "short", f"{OLD},short", ",".join((OLD, NEW, OLD))])
def test_what_can_not_be_a_secret_is_refused_without_printing_it(text: str) -> None:
    with pytest.raises(SettingError, match="QMQ_NODE_TOKEN holds") as caught:
        NodeSecret.parse(text, "QMQ_NODE_TOKEN")
    assert OLD not in str(caught.value)
    assert "short" not in str(caught.value).replace("shorter", "")


def test_it_comes_from_the_variable_else_from_a_file_else_there_is_none(tmp_path: Path) -> None:
    assert NodeSecret.from_environment({}, str(tmp_path / "none")) is None
    own, other = tmp_path / "own", tmp_path / "other"
    own.write_text(OLD)
    other.write_text(NEW)
    for file in (own, other):
        file.chmod(0o600)
    for environ, expected in (
        ({}, OLD),
        ({"QMQ_NODE_TOKEN_FILE": str(other)}, NEW),
        ({"QMQ_NODE_TOKEN": OLD, "QMQ_NODE_TOKEN_FILE": str(other)}, OLD),
    ):
        found = NodeSecret.from_environment(environ, str(own))
        assert found is not None
        assert found.sign("c") == NodeSecret.parse(expected, "x").sign("c")
    with pytest.raises(SettingError, match="can't be read: No such file"):
        NodeSecret.from_environment({"QMQ_NODE_TOKEN_FILE": str(tmp_path / "none")})


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o601])
def test_a_file_that_is_open_to_everybody_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "node_token"
    file.write_text(OLD)
    file.chmod(mode)
    with pytest.raises(SettingError, match="chmod 0600"):
        NodeSecret.load("", str(file))
    file.chmod(0o440)
    assert NodeSecret.load("", str(file)) is not None


def test_a_file_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "node_token"
    before = os.umask(0)
    try:
        make_secret_file(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text()
    assert NodeSecret.parse(text, "x") is not None
    make_secret_file(path)
    assert path.read_text() == text
    assert os.listdir(tmp_path) == ["node_token"]


def test_it_is_not_printed() -> None:
    assert OLD not in repr(NodeSecret.parse(OLD, "x"))
