"""`qmq produce` and `qmq consume`."""

import argparse
import asyncio
import signal
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from qmq.cli import limits
from qmq.cli.bodies import bodies
from qmq.cli.output import Lines, discard_rest, say, say_json, warn
from qmq.cli.printed import POLL_SECONDS, Printed
from qmq.cli.values import delay_of, iso, moment_of, seconds, whole
from qmq.client.config import Limits
from qmq.client.consumer import Consumer, Start
from qmq.client.delayed import DelayedReceipt
from qmq.client.producer import Producer
from qmq.errors import ClientFailed, ConsumeFailed, IllegalName, LocalProtocolError, SendFailed
from qmq.protocol.names import check_subject
from qmq.protocol.values import moment
from qmq.words import counted

APP = "qmq-cli"
SHOWN_MAX = 10
"""Message IDs and errors that `qmq produce` prints."""
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
    text = "file with one message per line, - for standard input; JSON objects become properties; lines that can't be sent are"
    text += " named, and the others sent"
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


@dataclass
class _Outcomes:
    """What became of messages: numbers, and the first of each kind to print."""

    sent: int = 0
    failed: int = 0
    ids: list[str] = field(default_factory=list)
    due: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    stopped_at: int = 0
    """The number of a message whose failure concerns those behind it too: 0 if there is none."""

    def add(self, number: int, place: str, future: "asyncio.Future[Any]") -> None:
        error = future.exception()
        if error is not None:
            self.failed += 1
            if len(self.problems) < SHOWN_MAX:
                self.problems.append(f"{place}{error}")
            if not place or not _is_of_message(error):
                self.stopped_at = self.stopped_at or number
            return
        self.sent += 1
        receipt = future.result()
        if len(self.ids) < SHOWN_MAX:
            self.ids.append(receipt.message_id)
            if isinstance(receipt, DelayedReceipt):
                self.due[receipt.message_id] = receipt.due_ms


def _is_of_message(error: BaseException) -> bool:
    """Whether an error concerns one message alone: it can't be sent, or the broker rejects it permanently."""
    return isinstance(error, LocalProtocolError | IllegalName) or (
        isinstance(error, SendFailed) and not error.retriable
    )


async def produce(arguments: argparse.Namespace) -> int:
    """Send all messages; one that can't be sent is reported, and the others are sent."""
    outcomes = _Outcomes()
    slots: set[asyncio.Future[Any]] = set()
    number = 0
    check_subject(arguments.subject)
    with bodies(arguments) as found:
        async with Producer(arguments.meta, app=APP, timeouts=limits.TIMEOUTS) as producer:
            is_delayed = arguments.delay is not None or arguments.due is not None
            with limits.only_the_error():
                await producer.wait_connected(arguments.subject, limits.REACH_SECONDS, delayed=is_delayed)
            for number, body in enumerate(found, start=1):
                sending = producer.send(
                    arguments.subject, body, tags=arguments.tags, delay=arguments.delay, due=arguments.due
                )
                future = asyncio.ensure_future(sending)
                place = "" if arguments.file is None else f"line {number}: "
                future.add_done_callback(partial(outcomes.add, number, place))
                future.add_done_callback(slots.discard)
                slots.add(future)
                if len(slots) >= PRODUCE_WINDOW:
                    await asyncio.wait(slots, return_when=asyncio.FIRST_COMPLETED)
                if outcomes.stopped_at:
                    break
            if slots:
                await asyncio.wait(slots)
    _report(arguments, outcomes, number)
    return FAILED if outcomes.failed else 0


def _report(arguments: argparse.Namespace, outcomes: _Outcomes, last: int) -> None:
    due = outcomes.due
    if arguments.json:
        counts = {"sent": outcomes.sent, "failed": outcomes.failed, "message_ids": outcomes.ids}
        answer: dict[str, Any] = {"subject": arguments.subject, **counts}
        say_json({**answer, **({"due_ms": due} if due else {}), "errors": outcomes.problems})
        return
    say(
        f"{counted(outcomes.sent, 'message')} sent to {arguments.subject}"
        + (f", due {iso(moment(next(iter(due.values()))))}" if due else "")
        + (f", {outcomes.failed} failed" if outcomes.failed else "")
    )
    for problem in outcomes.problems:
        warn(problem)
    if outcomes.failed > len(outcomes.problems):
        warn(f"{outcomes.failed - len(outcomes.problems)} more failed")
    if outcomes.stopped_at and arguments.file is not None:
        warn(f"stopped after line {last}: the lines behind it were not sent")


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
    printed = Printed(Lines())
    unread = 0
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    deadline = None if arguments.timeout is None else loop.time() + arguments.timeout

    def is_over() -> bool:
        return stop.is_set() or (deadline is not None and loop.time() >= deadline)

    async with consumer:
        patience = limits.REACH_SECONDS if arguments.timeout is None else min(limits.REACH_SECONDS, arguments.timeout)
        with limits.only_the_error():
            await consumer.wait_connected(patience)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        hint_at: float | None = loop.time() + limits.HINT_SECONDS
        while not stop.is_set() and (arguments.count is None or printed.count < arguments.count):
            left = POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - loop.time())
            if left <= 0 or printed.lines.is_closed():
                break
            for delivery in await consumer.pull(1, timeout=left):
                await printed.add(delivery, is_over)
            await printed.ack_taken()
            if hint_at is not None and (printed.count or loop.time() >= hint_at):
                if not printed.count:
                    warn(nothing_arrived(arguments))
                hint_at = None
        unread = await printed.ack_rest()
    is_closed = printed.lines.is_closed()
    if is_closed:
        discard_rest()
    if unread:
        warn(
            f"the output was closed: {counted(unread, 'message')} printed and not read, which the group receives again"
        )
    if unread or printed.unreadable or (is_closed and printed.count != arguments.count):
        return FAILED
    if arguments.count is not None and printed.count < arguments.count:
        warn(f"only {printed.count} of {counted(arguments.count, 'message')} arrived")
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
