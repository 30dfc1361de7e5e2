"""`qmq consume` and `qmq produce` with messages and lines that no client writes."""

import array
import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from qmq.sync import Consumer, Producer
from qmq.words import UNPRINTABLE
from tests.support.load.nonsense import CREATED, entry, nonsense, send_entries
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System
from tests.support.waiting import eventually


@contextmanager
def qmq(served: System, *arguments: str, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A running command, whose output is read by the test."""
    with subprocess.Popen(
        [sys.executable, "-m", "qmq.cli", *arguments, "--meta", served.meta_url],
        cwd=PROJECT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def unread(pipe: IO[bytes]) -> int:
    """Bytes in a pipe."""
    found = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, found)
    return found[0]


def lag(served: System, subject: str) -> int:
    return sum(group["lag"] for group in json.loads(served.qmq("lag", subject, "--json").stdout)["groups"])


def test_consume_prints_and_acknowledges_messages_with_nonsense_in_reserved_properties(served: System) -> None:
    subject = "cli.nonsense"
    with Producer(served.meta_url) as producer:
        producer.send(subject, "first")  # places the subject
    bad = nonsense(subject, (b"data", b"A\x1b[2J\xc2\x9b31m\xe2\x80\xae\xff"))
    good = [entry(subject, b"good%d" % number, CREATED, (b"data", b"good")) for number in range(20)]
    asyncio.run(send_entries(served, [*good[:10], *(one.entry for one in bad), *good[10:]]))
    stored = {one.message_id for one in bad if one.is_delivered} | {f"good{number}" for number in range(20)}
    consumed = served.qmq("consume", subject, "g", "--count", str(len(stored) + 1), "--timeout", "60")
    lines = [json.loads(line) for line in consumed.stdout.splitlines()]
    assert stored <= {line["message_id"] for line in lines}, consumed.stderr
    assert "Traceback" not in consumed.stderr
    assert not UNPRINTABLE.search(consumed.stdout.replace("\n", ""))
    assert len(lines) == len(stored) + 1
    eventually(lambda: lag(served, subject) == 0, what="each is acknowledged")


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C"}]
)
def test_the_encoding_of_the_output_leaves_no_message_unacknowledged(
    served: System, environment: dict[str, str]
) -> None:
    subject = f"cli.encoding-{'-'.join(environment.values())}"
    text = "ü 主题 🙂 \x9b31m"
    with Producer(served.meta_url) as producer:
        producer.send(subject, {"data": text, "schlüssel": "1"}, tags=["märz"])
    with qmq(served, "consume", subject, "g", "--count", "1", "--timeout", "60", **environment) as process:
        output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    (line,) = output.decode(environment.get("PYTHONIOENCODING", "utf-8")).splitlines()
    assert json.loads(line)["properties"] == {"data": text, "schlüssel": "1"}
    eventually(lambda: lag(served, subject) == 0, what="it is acknowledged")


def test_what_the_reader_of_the_output_did_not_read_goes_back_to_the_group(served: System) -> None:
    subject = "cli.pipe"
    with Producer(served.meta_url) as producer:
        producer.send_many(subject, [{"number": str(number)} for number in range(300)])
    read = b""
    with qmq(served, "consume", subject, "g") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while read.count(b"\n") < 20:
            chunk = os.read(process.stdout.fileno(), 64)
            assert chunk, process.stderr.read()
            read += chunk
        whole = read[: read.rindex(b"\n")]
        numbers = {json.loads(line)["properties"]["number"] for line in whole.splitlines()}
        eventually(
            lambda: lag(served, subject) == 300 - len(numbers), what="what was read is acknowledged, and no more"
        )
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(30) == 1
    assert "printed and not read, which the group receives again" in errors
    assert "Traceback" not in errors
    rest: set[str] = set()
    with Consumer(served.meta_url, subject, "g") as consumer:

        def is_complete() -> bool:
            for delivery in consumer.pull(100, timeout=1):
                rest.add(delivery.properties["number"])
                delivery.ack()
            return len(rest | numbers) == 300

        eventually(is_complete, what="every message was read or is delivered again", every_s=0)
    assert not rest & numbers


def test_a_reader_that_ends_after_the_last_message_is_no_failure(served: System) -> None:
    subject = "cli.last"
    with Producer(served.meta_url) as producer:
        producer.send(subject, "text")
    with qmq(served, "consume", subject, "g", "--count", "1") as process:
        assert process.stdout is not None
        assert json.loads(os.read(process.stdout.fileno(), 4096))["properties"] == {"data": "text"}
        process.stdout.close()
        assert process.wait(30) == 0
    eventually(lambda: lag(served, subject) == 0, what="it is acknowledged")


def test_a_reader_that_reads_late_gets_everything(served: System) -> None:
    subject = "cli.late"
    with Producer(served.meta_url) as producer:
        producer.send_many(subject, [{"data": "x" * 10_000, "number": str(number)} for number in range(50)])
    with qmq(served, "consume", subject, "g", "--count", "50") as process:
        assert process.stdout is not None
        eventually(lambda: unread(process.stdout) > 50_000, what="the pipe is full")  # type: ignore[arg-type]
        assert len(process.stdout.read().splitlines()) == 50
        assert process.wait(30) == 0
    eventually(lambda: lag(served, subject) == 0, what="all are acknowledged")


def test_a_reader_that_has_stopped_does_not_keep_the_command_from_ending(served: System) -> None:
    subject = "cli.stopped"
    with Producer(served.meta_url) as producer:
        producer.send_many(subject, [{"data": "x" * 3000, "number": str(number)} for number in range(90)])
    with qmq(served, "consume", subject, "g") as process:
        assert process.stdout is not None
        eventually(lambda: unread(process.stdout) > 50_000, what="the pipe is full")  # type: ignore[arg-type]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


# --- produce ----------------------------------------------------------------------------------------------------------


def received(served: System, subject: str, count: int) -> list[dict[str, Any]]:
    done = served.qmq("consume", subject, "g", "--count", str(count), "--timeout", "60")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_long_texts_are_sent_in_parts_as_clients_send_them(served: System, tmp_path: Path) -> None:
    subject, long = "cli.long", "ü" * 40_000
    (tmp_path / "lines").write_text(f"{long}\nshort\n{json.dumps({'note': long, 'k': 1})}\n{'[' * 20_000}\n")
    produced = served.qmq("produce", subject, "--file", str(tmp_path / "lines"), "-p", f"extra={'e' * 33_000}")
    assert (produced.returncode, produced.stdout) == (0, f"4 messages sent to {subject}\n"), produced.stderr
    assert served.qmq("produce", subject, "--size", "40000", "--json").returncode == 0
    with Consumer(served.meta_url, subject, "g", start="earliest") as consumer:
        bodies = []
        while len(bodies) < 5:
            for delivery in consumer.pull(5, timeout=5):
                bodies.append((delivery.body, delivery.properties))
                delivery.ack()
    assert {body for body, _ in bodies} == {long, "short", None, "[" * 20_000, "x" * 40_000}
    noted = next(properties for body, properties in bodies if body is None)
    assert "".join(value for key, value in noted.items() if key.startswith("note#part")) == long
    assert noted["k"] == "1"


def test_lines_that_can_not_be_sent_are_named_and_the_others_are_sent(served: System, tmp_path: Path) -> None:
    subject = "cli.bad-lines"
    deep = '{"a":' * 3000 + "1" + "}" * 3000
    lines = ["one", '{"qmq_times": 1}', "two", '{"k": "\\ud800"}', deep, json.dumps({"x" * 40_000: 1}), "three"]
    (tmp_path / "lines").write_text("\n".join(lines))
    produced = served.qmq("produce", subject, "--file", str(tmp_path / "lines"))
    assert (produced.returncode, produced.stdout) == (1, f"4 messages sent to {subject}, 3 failed\n")
    problems = produced.stderr.splitlines()
    assert [problem.split(":")[1].strip() for problem in problems] == ["line 2", "line 4", "line 6"]
    assert "property 'qmq_times' is reserved" in problems[0]
    assert "set_large_string" not in produced.stderr
    found = received(served, subject, 4)
    assert {one["properties"]["data"] for one in found} == {"one", "two", "three", deep}
    as_json = json.loads(served.qmq("produce", subject, "--file", str(tmp_path / "lines"), "--json").stdout)
    assert (as_json["sent"], as_json["failed"], len(as_json["errors"])) == (4, 3, 3)
