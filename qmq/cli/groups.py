"""`qmq groups`: consumer groups of a subject with their state and lag, and who consumes, as the console shows them."""

import argparse
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from qmq.cli import console
from qmq.cli.output import say, say_json, table


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    actions = commands.add_parser("groups", help="show consumer groups, their states and consumers").add_subparsers(
        dest="action", required=True
    )

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> Any:
        command = actions.add_parser(name, help=text)
        command.set_defaults(run=run)
        command.add_argument("subject", help="name of the subject")
        return command

    listing = add("list", show_list, "list the consumer groups of a subject with their state and lag")
    shown = add("show", show, "show one consumer group: what is wrong, and its consumers")
    shown.add_argument("group", help="name of the consumer group")
    for command in (listing, shown):
        console.add_arguments(command)


def show_list(arguments: argparse.Namespace) -> int:
    """Print the consumer groups of a subject; the exit code."""
    found: list[dict[str, Any]] = []
    path = f"lag/?subject={quote(arguments.subject, safe='')}&ordering=group"
    cursor: str | None = ""
    while cursor is not None:
        answer = _read(arguments, path + (f"&cursor={quote(cursor, safe='')}" if cursor else ""))
        found += answer["results"]
        cursor = answer["next"]
    if arguments.json:
        say_json({"subject": arguments.subject, "groups": found}, indent=2)
    elif found:
        table(["group", "state", "lag", "time lag", "drained in", "consumers"], map(_row, found))
        for row in found:
            if row["reason"]:
                say(f"group {row['group']}: {row['reason']}")
    else:
        say(f"subject {arguments.subject} has no consumer groups")
    return 0


def _row(row: dict[str, Any]) -> list[object]:
    drained = (row["not_draining"] or "").replace("_", " ") or _seconds(row["drain_seconds"])
    return [row["group"], row["state"], row["lag"], _seconds(row["time_lag_seconds"]), drained, row["consumers_online"]]


def show(arguments: argparse.Namespace) -> int:
    """Print one consumer group; the exit code."""
    path = f"consumer-groups/{quote(arguments.subject, safe='')}/{quote(arguments.group, safe='')}/"
    group = _read(arguments, path)
    if arguments.json:
        say_json(group, indent=2)
        return 0
    lag = "unknown" if group["lag"] is None else str(group["lag"])
    say(f"group {group['name']} of {group['subject']}, {group['state']}, lag {lag}")
    if group["unknown_reason"]:
        say(group["unknown_reason"])
    for finding in group["diagnosis"]:
        values = ", ".join(f"{name} {value}" for name, value in finding["values"].items() if value is not None)
        say(f"{finding['severity']}: {finding['code'].replace('_', ' ')}{f' ({values})' if values else ''}")
    if group["members"]:
        heading = ["consumer", "broker group", "online", "paused", "in flight", "last seen", "address"]
        table(heading, map(_member_row, group["members"]))
    elif not group["unknown_reason"]:
        say("no consumers")
    if left_out := group["members_total"] - len(group["members"]):
        say(f"{left_out} more")
    return 0


def _member_row(member: dict[str, Any]) -> list[object]:
    is_online, is_paused = ("yes" if member[name] else "no" for name in ("online", "is_paused"))
    seen = _seconds(member["last_seen_seconds"])
    return [
        member["consumer_id"], member["broker_group"], is_online, is_paused, member["in_flight"], seen, member["address"],
    ]  # fmt: skip


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f} s"


def _read(arguments: argparse.Namespace, path: str) -> dict[str, Any]:
    return console.call(arguments.console, console.token("read"), "GET", path)
