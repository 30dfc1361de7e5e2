"""Settings: precedence, limits, one clear line."""

import re
from pathlib import Path
from random import Random

import pytest

from broker_node.options import BrokerOptions
from metaserver.options import MetaOptions
from qmq.errors import SettingError
from qmq.net.discovery import METASERVERS_MAX, meta_url, meta_urls
from qmq.options import parse_options
from qmq_node.log.disk import SystemDisk
from qmq_node.node.data_dir import DataDir, DataDirOwner


def parse(*argv: str, **environ: str) -> BrokerOptions:
    return parse_options(BrokerOptions, argv, environ, prog="broker_node", process="broker")


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text('port = 1\nbroker_group = "file"\nread_only = true\n')
    assert parse().port == 20881
    options = parse("--config", str(config), "--port=3", QMQ_BROKER_PORT="2", QMQ_BROKER_NODE_ID="n")
    assert (options.port, options.broker_group, options.node_id, options.read_only) == (3, "file", "n", True)
    assert parse(QMQ_BROKER_PORT="2").port == 2
    assert parse("--read-only").read_only


@pytest.mark.parametrize(
    ("argv", "environ", "words"),
    [
        (["--port", "x"], {}, "--port is 'x'; must be a whole number from 0 to 65535"),
        (["--port", "70000"], {}, "from 0 to 65535"),
        (["--flush", "never"], {}, "always, interval, os"),
        (["--nonsense"], {}, "'--nonsense' is no flag"),
        (["--port"], {}, "--port needs a value"),
        ([], {"QMQ_BROKER_SEGMENT_BYTES": "1"}, "QMQ_BROKER_SEGMENT_BYTES is '1'"),
        (["--config", "/does/not/exist"], {}, "No such file"),
        (["--read-only=perhaps"], {}, "true or false"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_legal(argv: list[str], environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse(*argv, **environ)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_secrets_come_from_the_environment_or_a_file_and_never_from_the_command_line(tmp_path: Path) -> None:
    """One variable for all processes; nothing prints them."""
    assert parse(QMQ_NODE_TOKEN="top secret").node_token == "top secret"
    assert "top secret" not in repr(parse(QMQ_NODE_TOKEN="top secret", QMQ_METRICS_TOKEN="top secret"))
    config = tmp_path / "broker.toml"
    config.write_text('node_token = "top secret"\n')
    assert parse("--config", str(config)).node_token == "top secret"
    assert parse("--node-token-file", "/a", QMQ_NODE_TOKEN_FILE="/b").node_token_file == "/a"
    for flag in ("--node-token", "--metrics-token=top secret"):
        with pytest.raises(SettingError, match="is no flag, because other users can read command lines") as caught:
            parse(flag, "top secret")
        assert "top secret" not in str(caught.value)
    meta = parse_options(MetaOptions, (), {"QMQ_NODE_TOKEN": "x"}, prog="metaserver", process="meta")
    assert meta.node_token == "x"


def test_help_names_the_variables_of_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    text = capsys.readouterr().out
    assert "QMQ_NODE_TOKEN " in text
    assert "--node-token-file" in text
    assert "--node-token " not in text


@pytest.mark.parametrize("copies", ["0", "4", "two"])
def test_the_copies_of_new_groups_are_as_many_as_a_group_may_have(copies: str) -> None:
    with pytest.raises(SettingError, match=f"--copies is '{copies}'; must be a whole number from 1 to 3"):
        parse_options(MetaOptions, ["--copies", copies], {}, prog="metaserver", process="meta")


def test_an_unknown_key_in_the_file_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text("ports = 1\n")
    with pytest.raises(SettingError, match="'ports' is no setting"):
        parse("--config", str(config))


def test_a_folder_belongs_to_one_node_and_one_process(tmp_path: Path) -> None:
    owner = DataDirOwner("broker", "g1", "g1-a")
    first = DataDir.open(str(tmp_path), owner, SystemDisk(), Random())
    with pytest.raises(SettingError, match="in use by another process"):
        DataDir.open(str(tmp_path), owner, SystemDisk(), Random())
    first.close()
    # An emptied folder has another incarnation; one that is kept has the same.
    assert len(first.incarnation) == 16
    for has_replica in (False, True):
        reopened = DataDir.open(str(tmp_path), owner, SystemDisk(), Random())
        assert (reopened.incarnation, reopened.has_replica) == (first.incarnation, has_replica)
        reopened.note_replica()
        reopened.close()
    (tmp_path / "incarnation").write_bytes(b"0123")
    with pytest.raises(SettingError, match="incarnation has b'0123', not 16 hexadecimal digits; restore it"):
        DataDir.open(str(tmp_path), owner, SystemDisk(), Random())
    (tmp_path / "incarnation").unlink()
    DataDir.open(str(tmp_path), owner, SystemDisk(), Random()).close()
    with pytest.raises(SettingError, match="belongs to broker g1-a of group g1"):
        DataDir.open(str(tmp_path), DataDirOwner("broker", "g2", "g2-a"), SystemDisk(), Random())
    (tmp_path / "node.json").write_text("{")
    with pytest.raises(SettingError, match="can't be read"):
        DataDir.open(str(tmp_path), owner, SystemDisk(), Random())


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:8080", "http://localhost:8080/meta/address"),
        ("http://h:1", "http://h:1/meta/address"),
        ("http://h:1/meta/address", "http://h:1/meta/address"),
        ("http://h", "http://h:80/meta/address"),
    ],
)
def test_a_metaserver_is_named_as_users_type_it(text: str, url: str) -> None:
    assert meta_url(text) == url


@pytest.mark.parametrize("text", ["https://h:1", "http://", "h:port"])
def test_a_wrong_metaserver_is_refused(text: str) -> None:
    with pytest.raises(SettingError):
        meta_url(text)


def test_several_metaservers_are_named_in_one_text() -> None:
    assert meta_urls("a:1") == ("http://a:1/meta/address",)
    assert meta_urls("a:1, http://B ,c:3/x") == (
        "http://a:1/meta/address",
        "http://b:80/meta/address",
        "http://c:3/x",
    )
    assert len(meta_urls(",".join(f"h{number}:1" for number in range(METASERVERS_MAX)))) == METASERVERS_MAX


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a:1,,b:2", "entry 2 of 'a:1,,b:2' is empty; separate metaservers by single commas"),
        ("a:1,", "entry 2 of 'a:1,' is empty"),
        ("a:1,https://b", "'https://b' is not a metaserver URL such as http://127.0.0.1:8080/meta/address"),
        ("a:1,b:x", "'b:x' is not a metaserver URL"),
        ("A:80,b:1,http://a/", "names http://a:80/meta/address twice; name each metaserver once"),
        (",".join(f"h{number}:1" for number in range(METASERVERS_MAX + 1)), "names 6 metaservers; at most 5"),
    ],
)
def test_a_wrong_list_of_metaservers_is_refused_with_the_entry_and_what_to_write(text: str, problem: str) -> None:
    with pytest.raises(SettingError, match=re.escape(problem)):
        meta_urls(text)
