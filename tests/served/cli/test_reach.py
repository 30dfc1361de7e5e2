"""Commands that reach nothing fail soon with one line; commands that get nothing print a hint."""

import socket
from collections.abc import Callable

import pytest

from qmq.cli import limits, main
from qmq.client.lifecycle import reach
from qmq.errors import RouteUnknown
from qmq.net.pool import Pool
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff
from qmq.protocol.codes import BrokerGroupState, ClientType
from qmq.protocol.commands import BrokerGroupRoute
from tests.served.cli.commands import ASKING
from tests.support.servers.ports import free_port
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System

SENDING_AND_RECEIVING = [
    ["produce", "orders", "-p", "a=b"],
    ["produce", "orders", "-p", "a=b", "--delay", "1h"],
    ["consume", "orders", "g"],
    ["bench", "produce", "orders", "--count", "10"],
    ["bench", "delay", "orders", "--count", "10", "--due-from", "1h", "--due-to", "2h"],
    ["bench", "consume", "orders", "--count", "10"],
]


@pytest.fixture(autouse=True)
def _short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REACH_SECONDS", 0.5)
    monkeypatch.setattr(limits, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(limits, "HINT_SECONDS", 0.0)


@pytest.fixture
def bare_system(new_system: Callable[..., System]) -> System:
    """A metaserver without nodes."""
    system = new_system(groups=0)
    system.start()
    return system


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on standard error."""
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_the_limits_keep_commands_below_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert limits.REACH_SECONDS < 10
    assert 2 * limits.TIMEOUTS.connect < limits.REACH_SECONDS


@pytest.mark.parametrize("arguments", [*SENDING_AND_RECEIVING, *ASKING], ids=" ".join)
def test_without_a_metaserver_every_command_fails_with_one_line_that_names_it(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    assert main([*arguments, "--meta", address]) == 1
    line = one_line(capsys)
    assert line.startswith("qmq: ")
    assert address in line
    assert "can't be reached" in line
    assert "Check that the metaserver is running" in line


def test_without_a_console_apply_fails_with_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMQ_TOKEN", "t")
    address = f"http://127.0.0.1:{free_port()}"
    assert main(["apply", "-f", str(PROJECT / "deploy/example.yaml"), "--console", address]) == 1
    line = one_line(capsys)
    assert address in line
    assert "Check that the console is running" in line


def test_without_nodes_commands_that_need_one_fail_with_one_line_that_names_what_is_missing(
    bare_system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in SENDING_AND_RECEIVING:
        assert main([*arguments, "--meta", bare_system.meta_url]) == 1, arguments
        line = one_line(capsys)
        assert bare_system.meta_url in line
        what = "delay node" if "--delay" in arguments or "delay" in arguments else "broker"
        assert f"no {what} could be reached for subject orders" in line
        assert "Start one" in line


def test_a_group_that_gets_nothing_prints_a_hint(served: System, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--meta", served.meta_url])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    assert run("produce", "hint.orders", "-p", "a=b")[0] == 0
    consume = ("consume", "hint.orders", "g", "--timeout", "1")
    code, out, err = run(*consume, "--from", "latest")
    assert (code, out) == (0, "")
    assert "a new group starts at the end of hint.orders" in err
    # The group exists now, at the end.
    code, out, err = run(*consume, "--from", "earliest")
    assert (code, out) == (0, "")
    assert "If group g existed before, it continues where it was" in err
    code, out, err = run("bench", "consume", "hint.orders", "--count", "1", "--group", "g")
    assert code == 3
    assert "If group g existed before" in err
    code, out, err = run("consume", "hint.orders", "other", "--count", "1", "--timeout", "20")
    assert (code, out.count("\n")) == (0, 1)
    assert "nothing has arrived" not in err


@pytest.mark.parametrize("kind", ["produce", "consume"])
def test_a_benchmark_of_a_broker_that_never_answers_fails(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr("qmq.cli.bench._addresses", lambda *_: [silent.getsockname()])
        assert main(["bench", kind, "orders", "--count", "10", "--meta", "127.0.0.1:1"]) == 1
    assert "have not responded for 0.5 s" in one_line(capsys)


class RoutesOnly(MetaSession):
    """A session that has these routes, and no metaserver."""

    def __init__(self, *routes: BrokerGroupRoute) -> None:
        super().__init__("http://m/meta/address", app="", client_id="", timeouts=limits.TIMEOUTS, backoff=Backoff())
        self._routes = routes

    async def wait_routes(self, subject: str, client_type: ClientType, group: str = "") -> tuple[BrokerGroupRoute, ...]:
        return self._routes


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (BrokerGroupState.READ_WRITE, "g1: 127.0.0.1:1 can't be reached"),
        (BrokerGroupState.READ_ONLY, r"none of the subject's broker groups is available: g1 \(read_only\)"),
    ],
)
async def test_the_reason_names_the_broker_group(state: BrokerGroupState, words: str) -> None:
    session = RoutesOnly(BrokerGroupRoute("g1", "127.0.0.1:1", 0, state))
    with pytest.raises(RouteUnknown, match=words):
        await reach(session, Pool(1.0), "orders", ClientType.PRODUCER, "", seconds=0.2, backoff=Backoff(first=0.01))
