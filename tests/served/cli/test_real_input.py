"""The system's main job on real input: a log file in, every line out exactly once."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from qmq import Consumer, Limits
from qmq.cli import main
from tests.support.promises import judging
from tests.support.servers.processes import Command
from tests.support.servers.system import System
from tests.support.waiting import eventually, eventually_async

DPKG_LOG = Path("/var/log/dpkg.log")
LINES_MIN = 1000


@pytest.fixture
def lines(tmp_path: Path) -> tuple[Path, list[str]]:
    """A real log file; where the machine has none with so many lines, one of the same shape."""
    found = DPKG_LOG.read_text(errors="replace").splitlines()[:5000] if DPKG_LOG.exists() else []
    if len(found) < LINES_MIN:
        found = [
            f"2026-11-21 04:{i // 60 % 60:02}:{i % 60:02} status installed package{i}:amd64 1.{i}" for i in range(3000)
        ]
    path = tmp_path / "input.log"
    path.write_text("\n".join(found) + "\n")
    return path, found


def messages(output: str) -> list[str]:
    return [json.loads(line)["properties"]["data"] for line in output.splitlines()]


def eventually_lines(commands: list[Command], count: int) -> None:
    """Wait until the commands have written so many lines."""
    eventually(
        lambda: sum(command.output().count("\n") for command in commands) >= count, what=f"{count} lines", every_s=0.2
    )


def test_two_consumers_of_a_group_take_every_line_exactly_once(served: System, lines: tuple[Path, list[str]]) -> None:
    path, expected = lines
    # Both are there before the first line: one alone is through with a file in less time than the other takes to start.
    consumers = [served.qmq_soon("consume", "cli.logs", "readers") for _ in range(2)]

    def both_wait() -> bool:
        found = [
            group
            for name in served.brokers
            for subject in served.admin(name, "/stats?subject=cli.logs")["subjects"]
            for group in subject["groups"]
        ]
        return len(found) == 2 and all(len(group["consumers"]) == 2 for group in found)

    eventually(both_wait, what="both consumers pull from both brokers")
    produced = served.qmq("produce", "cli.logs", "--file", str(path), "--json")
    assert produced.returncode == 0, produced.stderr
    assert json.loads(produced.stdout)["sent"] == len(expected)
    eventually_lines(consumers, len(expected))
    results = [consumer.end() for consumer in consumers]
    assert [code for code, _ in results] == [0, 0]
    outputs = [output for _, output in results]
    shares = [len(messages(output)) for output in outputs]
    assert min(shares) > 0, f"one consumer took nothing: {shares}"
    with judging():
        assert Counter(messages(outputs[0]) + messages(outputs[1])) == Counter(expected)
    lag = json.loads(served.qmq("lag", "cli.logs", "--json").stdout)
    assert [group["lag"] for group in lag["groups"]] == [0]


async def test_a_consumer_added_in_a_backlog_takes_part_at_once(served: System, lines: tuple[Path, list[str]]) -> None:
    path, expected = lines
    produced = await asyncio.to_thread(served.qmq, "produce", "cli.backlog", "--file", str(path))
    assert produced.returncode == 0, produced.stderr
    got: Counter[str] = Counter()
    goes_on = asyncio.Event()

    async def consume(consumer: Consumer) -> None:
        """Take a few lines, and the others only when the third consumer has had its share."""
        while got.total() < len(expected):
            for delivery in await consumer.pull(10, timeout=1):
                got[delivery.properties["data"]] += 1
                await delivery.ack()
            await goes_on.wait()

    limits = Limits(prefetch_messages=50)
    async with (
        Consumer(served.meta_url, "cli.backlog", "readers", consumer_id="a", start="earliest", limits=limits) as first,
        Consumer(served.meta_url, "cli.backlog", "readers", consumer_id="b", start="earliest", limits=limits) as second,
    ):
        tasks = [asyncio.create_task(consume(consumer)) for consumer in (first, second)]
        await eventually_async(lambda: got.total() > 0, what="the first two consume")
        third = await asyncio.to_thread(
            served.qmq, "consume", "cli.backlog", "readers", "--count", "200", "--timeout", "60"
        )
        assert third.returncode == 0, "the third consumer got less than its share of a backlog"
        got.update(messages(third.stdout))
        goes_on.set()
        await asyncio.gather(*tasks)
    with judging():
        assert got == Counter(expected)


def test_commands_answer_as_documented(served: System) -> None:
    assert served.qmq("status").returncode == 0
    sent = served.qmq("produce", "cli.orders", "-p", "number=17", "--tag", "eu", "--json")
    assert json.loads(sent.stdout)["sent"] == 1
    got = served.qmq("consume", "cli.orders", "billing", "--count", "1", "--timeout", "10")
    assert got.returncode == 0, got.stderr
    line = json.loads(got.stdout)
    assert line["properties"] == {"number": "17"}
    assert line["tags"] == ["eu"]
    assert line["attempt"] == 1
    assert set(line) == {"message_id", "properties", "tags", "times", "attempt"}
    assert served.qmq("consume", "cli.orders", "billing", "--count", "1", "--timeout", "1").returncode == 3
    subjects = json.loads(served.qmq("subjects", "--json").stdout)["subjects"]
    (orders,) = [subject for subject in subjects if subject["subject"] == "cli.orders"]
    assert len(orders["broker_groups"]) == 2
    stdin = served.qmq("produce", "cli.orders", "--file", "-", stdin=b'{"a": 1, "b": "two"}\nplain text\n')
    assert stdin.stdout == "2 messages sent to cli.orders\n"
    rest = served.qmq("consume", "cli.orders", "billing", "--count", "2", "--timeout", "10").stdout.splitlines()
    assert sorted(json.dumps(json.loads(line)["properties"]) for line in rest) == [
        '{"a": "1", "b": "two"}',
        '{"data": "plain text"}',
    ]
    late = served.qmq("consume", "cli.orders", "late", "--count", "1", "--timeout", "1", "--from", "latest")
    assert late.returncode == 3
    assert len(served.qmq("consume", "cli.orders", "early", "--count", "3", "--timeout", "10").stdout.splitlines()) == 3
    bench = served.qmq("bench", "produce", "cli.load", "--count", "3000", "--size", "128", "--batch", "30", "--json")
    assert bench.returncode == 0, bench.stderr
    assert {"messages_per_s", "mb_per_s", "p50_ms", "p99_ms", "p999_ms"} <= set(json.loads(bench.stdout))
    drained = served.qmq("bench", "consume", "cli.load", "--count", "3000", "--json")
    assert drained.returncode == 0, drained.stderr
    assert json.loads(drained.stdout)["messages"] == 3000
    unknown = served.qmq("lag", "missing")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "missing" in unknown.stderr
    assert len(unknown.stderr.strip().splitlines()) == 1, unknown.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["produce"], 2, "required"),
        (["produce", "a b"], 1, "'a b'"),
        (["produce", "orders", "-p", "nonsense"], 2, "KEY=VALUE"),
        (["produce", "orders", "--file", "/does/not/exist"], 2, "No such file"),
        (["consume", "orders", "g", "--count", "0"], 2, "'0'"),
        (["consume", "orders", "g", "--from", "yesterday"], 2, "yesterday"),
        (["consume", "orders", "g/h", "--timeout", "1"], 1, "g/h"),
        (["bench", "produce", "x", "--count", "0"], 2, "--count"),
    ],
)
def test_wrong_use_gets_one_clear_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    """In this process and without a system: nothing is connected before the arguments are checked."""
    try:
        returned: object = main([*arguments, "--meta", "127.0.0.1:9"])
    except SystemExit as exit_of_argparse:
        returned = exit_of_argparse.code
    output, errors = capsys.readouterr()
    assert (returned, output) == (code, "")
    assert words in errors
    assert len(errors.strip().splitlines()) == 1, errors
