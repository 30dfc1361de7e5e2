"""`qmq delayed`: what waits to be delivered, and changes to it."""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from qmq.cli import limits
from qmq.cli.pages import with_advice
from qmq.cli.status import table
from qmq.cli.values import delay_of, iso, moment_of, pairs_of, whole
from qmq.client.delayed import DelayedMessage, DelayedMessages
from qmq.client.message import moment
from qmq.errors import ConnectionLost, SettingError
from qmq.protocol.delayed import DelayedChange, DelayedState, Outcome
from qmq.words import counted

FAILED = 1
LIST_LIMIT = 50
T = TypeVar("T")


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    group = commands.add_parser("delayed", help="find, list, cancel, reschedule or deliver delayed messages")
    actions = group.add_subparsers(dest="action", required=True)

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> Any:
        command = actions.add_parser(name, parents=[shared], help=text)
        command.set_defaults(run=run)
        return command

    command = add("list", show_list, "list delayed messages of a subject by due time")
    command.add_argument("subject", help="name of the subject")
    _add_range(command)
    _add_match(command)
    command.add_argument(
        "--state", dest="states", action="append", default=[], choices=[str(s) for s in DelayedState],
        help="only messages in this state; default: pending, delivering, refused",
    )  # fmt: skip
    text = f"maximum number of messages; default: {LIST_LIMIT}"
    command.add_argument("--limit", type=whole, default=LIST_LIMIT, metavar="N", help=text)

    command = add("show", show, "show one message and its current state")
    _add_message(command)

    command = add("cancel", cancel, "cancel one message by ID, or all messages that match the filters")
    command.add_argument("message_id", help="ID of the message", nargs="?")
    _add_hints(command)
    _add_range(command)
    _add_match(command)
    command.add_argument("--dry-run", action="store_true", help="with --subject: only count matching messages")

    command = add("reschedule", reschedule, "change the due time of a message")
    _add_message(command)
    when = command.add_mutually_exclusive_group(required=True)
    when.add_argument("--due", type=moment_of, metavar="ISO", help="new due time, an ISO time with a time zone")
    when.add_argument("--delay", type=delay_of, metavar="D", help="new delay from now: 30s, 5m, 2h, 3d")

    command = add("deliver", lambda arguments: _change(arguments, DelayedMessages.deliver), "deliver a message now")
    _add_message(command)

    command = add("calendar", calendar, "count pending messages by hour")
    command.add_argument("subject", nargs="?", default="")
    _add_range(command)


def _add_range(command: Any) -> None:
    command.add_argument("--from", dest="begin", type=moment_of, metavar="ISO", help="due at or after this time")
    command.add_argument("--to", dest="end", type=moment_of, metavar="ISO", help="due before this time")


def _add_match(command: Any) -> None:
    command.add_argument("--match", metavar="K=V", action="append", default=[], help="only messages with this property")


def _add_hints(command: Any) -> None:
    command.add_argument("--subject", default="", help="subject of the message, if known")
    command.add_argument(
        "--was-due", type=moment_of, metavar="ISO", help="due time of the message, if known; makes the lookup faster"
    )


def _add_message(command: Any) -> None:
    command.add_argument("message_id", help="ID of the message")
    _add_hints(command)


def _with(arguments: argparse.Namespace, work: Callable[[DelayedMessages], Awaitable[T]]) -> T:
    async def run() -> T:
        async with DelayedMessages(arguments.meta, timeouts=limits.TIMEOUTS) as messages:
            try:
                await messages.groups()
            except ConnectionLost as error:
                raise with_advice(error) from error
            return await work(messages)

    return asyncio.run(run())


def _shown(message: DelayedMessage) -> dict[str, Any]:
    inner = message.item.message
    return {
        "message_id": message.message_id,
        "subject": message.subject,
        "due_at": iso(message.due_at),
        "state": message.state,
        "delay_group": message.delay_group,
        "tags": list(inner.tags),
        "properties": inner.properties,
        "bytes": len(message.item.raw),
    }


def _print_problems(problems: Mapping[str, str]) -> None:
    for group, why in problems.items():
        sys.stderr.write(f"qmq: delay group {group}: unknown, {why}\n")


def _until(message: DelayedMessage) -> str:
    if message.state not in ("pending", "delivering"):
        return ""
    left = message.due_at - datetime.now(UTC)
    return f"in {timedelta(seconds=round(left.total_seconds()))}" if left > timedelta(0) else "due"


def _print_messages(messages: list[DelayedMessage]) -> None:
    table(
        ["message ID", "due at", "", "state", "group", "bytes"],
        ([m.message_id, iso(m.due_at), _until(m), m.state, m.delay_group, len(m.item.raw)] for m in messages),
    )


def show_list(arguments: argparse.Namespace) -> int:
    problems: dict[str, str] = {}
    match = pairs_of(arguments.match, "--match")

    async def work(messages: DelayedMessages) -> list[DelayedMessage]:
        found = []
        pages = messages.list(
            arguments.subject, begin=arguments.begin, end=arguments.end, states=arguments.states, match=match,
            problems=problems,
        )  # fmt: skip
        async for message in pages:
            found.append(message)
            if len(found) > arguments.limit:
                break
        return found

    found = _with(arguments, work)
    has_more, found = len(found) > arguments.limit, found[: arguments.limit]
    if arguments.json:
        answer = {"messages": [_shown(message) for message in found], "has_more": has_more, "unknown": problems}
        print(json.dumps(answer, indent=2, ensure_ascii=False))
    elif found:
        _print_messages(found)
        if has_more:
            print(f"... more; continue with --from {iso(found[-1].due_at)} or --limit")
    else:
        print(f"no delayed messages of {arguments.subject} in this range")
    _print_problems(problems)
    return FAILED if problems and not found else 0


def show(arguments: argparse.Namespace) -> int:
    found = _with(arguments, lambda m: m.find(arguments.message_id, subject=arguments.subject, due=arguments.was_due))
    if arguments.json:
        answer = {"messages": [_shown(message) for message in found.messages], "unknown": dict(found.problems)}
        print(json.dumps(answer, indent=2, ensure_ascii=False))
    elif found.messages:
        _print_messages(list(found.messages))
        for key, value in found.messages[-1].item.message.properties.items():
            print(f"  {key} = {value}")
    else:
        print(f"delayed message {arguments.message_id} not found (delivered messages are kept for a day)")
    _print_problems(found.problems)
    return 0 if found.messages else FAILED


def _change(arguments: argparse.Namespace, method: Callable[..., Awaitable[DelayedChange]]) -> int:
    change = _with(
        arguments, lambda m: method(m, arguments.message_id, subject=arguments.subject, due=arguments.was_due)
    )
    due_at = None if change.due_ms < 0 else iso(moment(change.due_ms))
    if arguments.json:
        answer = {"message_id": change.message_id, "outcome": change.outcome, "state": change.state, "due_at": due_at}
        print(json.dumps(answer))
    else:
        state = f": {change.state}, due {due_at}" if due_at else ""
        print(f"{change.message_id}: {change.outcome.replace('_', ' ')}{state}")
    return 0 if change.outcome in (Outcome.DONE, Outcome.UNCHANGED) else FAILED


def cancel(arguments: argparse.Namespace) -> int:
    """Cancel one message, or all that match; 0 when it is cancelled."""
    if arguments.message_id:
        if arguments.match or arguments.begin or arguments.end or arguments.dry_run:
            raise SettingError("--match, --from, --to and --dry-run require --subject and no message ID")
        return _change(arguments, DelayedMessages.cancel)
    if not arguments.subject:
        raise SettingError("specify a message ID, or --subject to cancel all matching messages")
    match = pairs_of(arguments.match, "--match")
    filters: dict[str, Any] = {"match": match, "begin": arguments.begin, "end": arguments.end}
    done = _with(arguments, lambda m: m.cancel_matching(arguments.subject, **filters, dry_run=arguments.dry_run))
    if arguments.json:
        counts = {"matched": done.matched, "cancelled": done.cancelled, "too_late": done.too_late}
        answer = {"subject": arguments.subject, "dry_run": arguments.dry_run, **counts, "unknown": dict(done.problems)}
        print(json.dumps(answer))
    elif arguments.dry_run:
        print(f"{counted(done.matched - done.too_late, 'message')} would be cancelled; nothing was changed")
    else:
        print(f"{counted(done.cancelled, 'message')} cancelled, {done.too_late} could no longer be cancelled")
    _print_problems(done.problems)
    return FAILED if done.problems else 0


def reschedule(arguments: argparse.Namespace) -> int:
    return _change(arguments, partial(DelayedMessages.reschedule, to=arguments.due, delay=arguments.delay))


def calendar(arguments: argparse.Namespace) -> int:
    found = _with(arguments, lambda m: m.calendar(arguments.subject, begin=arguments.begin, end=arguments.end))
    if arguments.json:
        hours = [{"hour": iso(hour), "pending": count} for hour, count in found.hours.items()]
        print(json.dumps({"subject": arguments.subject, "hours": hours, "unknown": dict(found.problems)}, indent=2))
    elif found.hours:
        most = max(found.hours.values())
        table(
            ["hour (UTC)", "pending", ""],
            (
                [hour.strftime("%Y-%m-%d %H:00"), count, "#" * max(1, round(40 * count / most))]
                for hour, count in found.hours.items()
            ),
        )
    else:
        print("no pending delayed messages in this range")
    _print_problems(found.problems)
    return FAILED if found.problems else 0
