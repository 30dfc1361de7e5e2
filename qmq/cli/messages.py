"""`qmq produce` and `qmq consume`."""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from qmq.cli import limits
from qmq.cli.values import delay_of, iso, moment_of, pairs_of, seconds, whole
from qmq.client.bodies import Body
from qmq.client.config import Limits
from qmq.client.consumer import Consumer, Start
from qmq.client.delayed import DelayedReceipt
from qmq.client.delivery import Delivery
from qmq.client.producer import Producer
from qmq.errors import ClientFailed, ConsumeFailed, SettingError
from qmq.protocol.names import check_subject
from qmq.protocol.values import moment
from qmq.words import counted

APP = "qmq-cli"
FAILED, TIMED_OUT = 1, 3
PRODUCE_WINDOW = 4_000
"""Messages under way before the next line is read."""
CONSUME_PREFETCH = 100
"""Messages `qmq consume` holds before they are printed; small, so that consumers side by side share evenly."""


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser("produce", parents=[shared], help="send messages")
    command.add_argument("subject", help="name of the subject")
    repeated: dict[str, Any] = {"action": "append", "default": []}
    text = "property of the message; can be repeated"
    command.add_argument("-p", dest="properties", metavar="K=V", help=text, **repeated)
    command.add_argument("--tag", dest="tags", metavar="T", help="tag of the message; can be repeated", **repeated)
    command.add_argument("--count", type=whole, default=1, metavar="N", help="number of copies to send")
    command.add_argument("--size", type=whole, metavar="B", help="fill property `data` with this number of bytes")
    text = "file with one message per line, - for standard input; JSON objects become properties"
    command.add_argument("--file", metavar="F", help=text)
    when = command.add_mutually_exclusive_group()
    when.add_argument("--delay", type=delay_of, metavar="D", help="deliver after this delay: 30s, 5m, 2h, 3d")
    when.add_argument("--due", type=moment_of, metavar="ISO", help="deliver at this time, an ISO time with a time zone")
    command.set_defaults(run=lambda arguments: asyncio.run(produce(arguments)))
    command = commands.add_parser("consume", parents=[shared], help="receive messages, one JSON object per line")
    command.add_argument("subject", help="name of the subject")
    command.add_argument("group", help="name of the consumer group")
    command.add_argument("--count", type=whole, metavar="N", help="stop after this number of messages")
    command.add_argument("--timeout", type=seconds, metavar="S", help="stop after this number of seconds")
    text = "where the group starts if it is new; default: earliest"
    places = "earliest|latest|TIME"
    command.add_argument("--from", dest="start", type=_start, default="earliest", metavar=places, help=text)
    text = "only messages with this tag; can be repeated"
    command.add_argument("--tag", dest="tags", metavar="T", help=text, **repeated)
    command.set_defaults(run=consume)


def _start(text: str) -> Start:
    if text in ("earliest", "latest"):
        return text  # type: ignore[return-value]
    try:
        return moment_of(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; must be earliest, latest or a time") from None


@contextlib.contextmanager
def _bodies(arguments: argparse.Namespace) -> Iterator[Iterator[Body]]:
    """Yield the bodies that the arguments describe. Raises SettingError for an invalid property or file."""
    fixed = pairs_of(arguments.properties, "-p")
    if arguments.size is not None:
        fixed["data"] = "x" * arguments.size
    if arguments.file is None:
        yield (fixed for _ in range(arguments.count))
        return
    if arguments.file == "-":
        yield _lines(sys.stdin.buffer, fixed)
        return
    try:
        file = open(arguments.file, "rb")  # noqa: SIM115
    except OSError as error:
        raise SettingError(f"--file {arguments.file}: {error.strerror}") from error
    with file:
        yield _lines(file, fixed)


def _lines(file: BinaryIO, fixed: dict[str, str]) -> Iterator[Body]:
    for line in file:
        yield {**fixed, **_line(line.decode("utf-8", "replace").rstrip("\r\n"))}


def _line(text: str) -> dict[str, str | int | float | bool]:
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return {k: v if isinstance(v, str | int | float | bool) else json.dumps(v) for k, v in found.items()}
    return {"data": text}


async def produce(arguments: argparse.Namespace) -> int:
    sent = failed = 0
    receipts: list[str] = []
    due: dict[str, int] = {}
    problems: list[str] = []
    slots: set[asyncio.Future[Any]] = set()

    def settled(future: "asyncio.Future[Any]") -> None:
        nonlocal sent, failed
        slots.discard(future)
        error = future.exception()
        if error is not None:
            failed += 1
            problems[:] = [*problems[:9], str(error)]
            return
        sent += 1
        receipt = future.result()
        if len(receipts) < 10:
            receipts.append(receipt.message_id)
            if isinstance(receipt, DelayedReceipt):
                due[receipt.message_id] = receipt.due_ms

    check_subject(arguments.subject)
    with _bodies(arguments) as bodies:
        async with Producer(arguments.meta, app=APP, timeouts=limits.TIMEOUTS) as producer:
            is_delayed = arguments.delay is not None or arguments.due is not None
            with limits.only_the_error():
                await producer.wait_connected(arguments.subject, limits.REACH_SECONDS, delayed=is_delayed)
            for body in bodies:
                sending = producer.send(
                    arguments.subject, body, tags=arguments.tags, delay=arguments.delay, due=arguments.due
                )
                future = asyncio.ensure_future(sending)
                future.add_done_callback(settled)
                slots.add(future)
                if len(slots) >= PRODUCE_WINDOW:
                    await asyncio.wait(slots, return_when=asyncio.FIRST_COMPLETED)
                if failed:
                    break
            if slots:
                await asyncio.wait(slots)
    if arguments.json:
        answer: dict[str, Any] = {"subject": arguments.subject, "sent": sent, "failed": failed, "message_ids": receipts}
        print(json.dumps({**answer, **({"due_ms": due} if due else {}), "errors": problems}))
    else:
        print(
            f"{counted(sent, 'message')} sent to {arguments.subject}"
            + (f", due {iso(moment(next(iter(due.values()))))}" if due else "")
            + (f", {failed} failed" if failed else "")
        )
        for problem in problems[:3]:
            sys.stderr.write(f"qmq: {problem}\n")
    return FAILED if failed else 0


def consume(arguments: argparse.Namespace) -> int:
    """Receive; 0 when --count was reached, or without --count when the time was up or the command was interrupted."""
    try:
        with limits.failures_are_raised():
            return asyncio.run(_consume(arguments))
    except ClientFailed as error:
        raise (error.__cause__ if isinstance(error.__cause__, ConsumeFailed) else error) from None


async def _consume(arguments: argparse.Namespace) -> int:
    prefetch = min(CONSUME_PREFETCH, arguments.count or CONSUME_PREFETCH)
    consumer = Consumer(
        arguments.meta,
        arguments.subject,
        arguments.group,
        app=APP,
        start=arguments.start,
        tags=arguments.tags,
        limits=Limits(prefetch_messages=prefetch, pull_messages=min(50, prefetch)),
        timeouts=limits.TIMEOUTS,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    deadline = None if arguments.timeout is None else loop.time() + arguments.timeout
    got = 0
    async with consumer:
        patience = limits.REACH_SECONDS if arguments.timeout is None else min(limits.REACH_SECONDS, arguments.timeout)
        with limits.only_the_error():
            await consumer.wait_connected(patience)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        hint_at: float | None = loop.time() + limits.HINT_SECONDS
        while not stop.is_set() and (arguments.count is None or got < arguments.count):
            left = 0.2 if deadline is None else min(0.2, deadline - loop.time())
            if left <= 0:
                break
            for delivery in await consumer.pull(1, timeout=left):
                sys.stdout.write(json.dumps(_line_of(delivery), ensure_ascii=False) + "\n")
                sys.stdout.flush()
                await delivery.ack()
                got += 1
            if hint_at is not None and (got or loop.time() >= hint_at):
                if not got:
                    sys.stderr.write(f"qmq: {nothing_arrived(arguments)}\n")
                hint_at = None
    if arguments.count is not None and got < arguments.count:
        sys.stderr.write(f"qmq: only {got} of {counted(arguments.count, 'message')} arrived\n")
        return TIMED_OUT
    return 0


def nothing_arrived(arguments: argparse.Namespace) -> str:
    seconds, subject, group = f"{limits.HINT_SECONDS:g} s", arguments.subject, arguments.group
    if arguments.start == "latest":
        return (
            f"no messages received in {seconds}. With --from latest a new group starts at the end of {subject}: only messages"
            " sent from now on arrive. To read stored messages, use a new group and --from earliest."
        )
    return (
        f"no messages received in {seconds}. If group {group} existed before, it continues where it was, which may be the end of"
        f" {subject}, and --from has no effect. `qmq lag {subject}` shows what is left; a new group reads from the beginning."
    )


def _line_of(delivery: Delivery) -> dict[str, Any]:
    return {
        "message_id": delivery.message_id,
        "properties": delivery.properties,
        "tags": list(delivery.tags),
        "times": {
            "created_at": delivery.created_at.isoformat().replace("+00:00", "Z"),
            "received_at": moment(delivery.received_at_ms).isoformat().replace("+00:00", "Z"),
        },
        "attempt": delivery.attempt,
    }
