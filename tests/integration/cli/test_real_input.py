"""The system's main job on real input: a log file in, every line out exactly once."""

import json
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest

from qmq.protocol.names import retry_subject
from tests.support.processes import Command, System
from tests.support.waiting import eventually

DPKG_LOG = Path("/var/log/dpkg.log")


@pytest.fixture
def lines(tmp_path: Path) -> tuple[Path, list[str]]:
    """A real log file; where the machine has none, one of the same shape."""
    if DPKG_LOG.exists() and DPKG_LOG.stat().st_size:
        found = DPKG_LOG.read_text(errors="replace").splitlines()[:5000]
    else:
        found = [
            f"2026-11-21 04:{i // 60 % 60:02}:{i % 60:02} status installed package{i}:amd64 1.{i}" for i in range(3000)
        ]
    path = tmp_path / "input.log"
    path.write_text("\n".join(found) + "\n")
    return path, found


def messages(output: str) -> list[str]:
    return [json.loads(line)["properties"]["data"] for line in output.splitlines()]


def eventually_lines(commands: list[Command], count: int) -> None:
    """Wait until they have written so many lines."""
    eventually(
        lambda: sum(command.output().count("\n") for command in commands) >= count, 120, f"{count} lines", every_s=0.2
    )


def test_two_consumers_of_a_group_take_every_line_exactly_once(system: System, lines: tuple[Path, list[str]]) -> None:
    path, expected = lines
    # Both are there before the first line: one alone is through with a file in less time than the other takes to start.
    consumers = [system.qmq_soon("consume", "logs", "readers") for _ in range(2)]

    def both_wait() -> bool:
        found = [
            group
            for name in system.brokers
            for subject in system.admin(name, "/stats?subject=logs")["subjects"]
            for group in subject["groups"]
        ]
        return len(found) == 2 and all(len(group["consumers"]) == 2 for group in found)

    eventually(both_wait, 20, "both consumers pull from both brokers")
    produced = system.qmq("produce", "logs", "--file", str(path), "--json")
    assert produced.returncode == 0, produced.stderr
    assert json.loads(produced.stdout)["sent"] == len(expected)
    eventually_lines(consumers, len(expected))
    results = [consumer.end() for consumer in consumers]
    assert [code for code, _ in results] == [0, 0]
    outputs = [output for _, output in results]
    shares = [len(messages(output)) for output in outputs]
    assert min(shares) > 0, f"one consumer took nothing: {shares}"
    assert Counter(messages(outputs[0]) + messages(outputs[1])) == Counter(expected)
    lag = json.loads(system.qmq("lag", "logs", "--json").stdout)
    assert [group["lag"] for group in lag["groups"]] == [0]


def held(system: System, subject: str, group: str) -> list[str]:
    """What every broker has of a group that is not acknowledged, retries included."""
    found = []
    for name in system.brokers:
        for item in (subject, retry_subject(subject, group)):
            for stats in system.admin(name, f"/stats?subject={quote(item, safe='')}")["subjects"]:
                found += [f"{name} {item}: {row}" for row in stats["groups"]]
    return found


def test_a_consumer_added_in_a_backlog_takes_part_at_once(system: System, lines: tuple[Path, list[str]]) -> None:
    path, expected = lines
    # Long enough that two consumers are not through with it before a third has started.
    for _ in range(6):
        assert system.qmq("produce", "logs", "--file", str(path)).returncode == 0
    expected = expected * 6
    first = [system.qmq_soon("consume", "logs", "readers") for _ in range(2)]
    for consumer in first:
        eventually(consumer.output, 20, "a first line")
    third = system.qmq_soon("consume", "logs", "readers", "--count", "200", "--timeout", "60")
    code, third_output = third.finish()
    assert code == 0, "the third consumer got less than its share of a backlog"
    eventually_lines([*first, third], len(expected))
    outputs = [third_output, *(consumer.end()[1] for consumer in first)]
    got = Counter(m for output in outputs for m in messages(output))
    assert got == Counter(expected), f"where the others are: {held(system, 'logs', 'readers')}"


def test_commands_answer_as_documented(system: System) -> None:
    assert system.qmq("status").returncode == 0
    sent = system.qmq("produce", "orders", "-p", "number=17", "--tag", "eu", "--json")
    assert json.loads(sent.stdout)["sent"] == 1
    got = system.qmq("consume", "orders", "billing", "--count", "1", "--timeout", "10")
    assert got.returncode == 0, got.stderr
    line = json.loads(got.stdout)
    assert line["properties"] == {"number": "17"}
    assert line["tags"] == ["eu"]
    assert line["attempt"] == 1
    assert set(line) == {"message_id", "properties", "tags", "times", "attempt"}
    assert system.qmq("consume", "orders", "billing", "--count", "1", "--timeout", "1").returncode == 3
    subjects = json.loads(system.qmq("subjects", "--json").stdout)["subjects"]
    assert [s["subject"] for s in subjects] == ["orders"]
    assert len(subjects[0]["broker_groups"]) == 2
    stdin = system.qmq("produce", "orders", "--file", "-", stdin=b'{"a": 1, "b": "two"}\nplain text\n')
    assert stdin.stdout == "2 messages sent to orders\n"
    rest = system.qmq("consume", "orders", "billing", "--count", "2", "--timeout", "10").stdout.splitlines()
    assert sorted(json.dumps(json.loads(line)["properties"]) for line in rest) == [
        '{"a": "1", "b": "two"}',
        '{"data": "plain text"}',
    ]
    late = system.qmq("consume", "orders", "late", "--count", "1", "--timeout", "1", "--from", "latest")
    assert late.returncode == 3
    assert len(system.qmq("consume", "orders", "early", "--count", "3", "--timeout", "10").stdout.splitlines()) == 3
    bench = system.qmq("bench", "produce", "load", "--count", "3000", "--size", "128", "--batch", "30", "--json")
    assert bench.returncode == 0, bench.stderr
    assert {"messages_per_s", "mb_per_s", "p50_ms", "p99_ms", "p999_ms"} <= set(json.loads(bench.stdout))
    drained = system.qmq("bench", "consume", "load", "--count", "3000", "--json")
    assert drained.returncode == 0, drained.stderr
    assert json.loads(drained.stdout)["messages"] == 3000


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
        (["lag", "nobody"], 1, "nobody"),
        (["bench", "produce", "x", "--count", "0"], 2, "--count"),
    ],
)
def test_wrong_use_gets_one_clear_line(system: System, arguments: list[str], code: int, words: str) -> None:
    done = system.qmq(*arguments)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
