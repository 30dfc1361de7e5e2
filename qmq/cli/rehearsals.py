"""`qmq broker-groups rehearse`: switch-overs of all groups that a node or a rack leads, and back."""

import argparse
import json
from typing import Any
from urllib.parse import quote

from qmq.cli import console
from qmq.cli.output import say, say_json, table
from qmq.errors import QmqError

HELP = "switch over all groups that a node or a rack leads, or back"
DESCRIPTION = (
    "Switches over every broker and delay group that a node, or the nodes of a rack, lead, one after the other, as if these were to"
    " be stopped; --undo switches back what rehearsals of the last 24 hours left. A group that can't be switched over is left as it"
    " is. Exit code 1 if there is one, or a switch-over failed."
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add what is rehearsed."""
    of = command.add_mutually_exclusive_group(required=True)
    of.add_argument("--node", default="", help="node ID of the node that is to stop")
    of.add_argument("--rack", default="", help="rack whose nodes are to stop")
    of.add_argument("--undo", action="store_true", help="switch back")


def rehearse(arguments: argparse.Namespace) -> int:
    """Switch over group by group, or print the plan; the exit code."""
    rehearsal, query = "", ""
    if not arguments.undo:
        kind, name = ("node", arguments.node) if arguments.node else ("rack", arguments.rack)
        rehearsal, query = f"{kind} {name}", f"?{kind}={quote(name, safe='')}"
    found = console.call(arguments.console, console.token("read"), "GET", f"rehearsals/{query}")
    rows: list[dict[str, Any]] = found["undo" if arguments.undo else "plan"]
    if arguments.json:
        outcomes = [{**row, **_outcome(arguments, row, rehearsal)} for row in rows]
        say_json({"switch_overs": outcomes}, indent=2)
        return _exit_code(outcomes)
    if not rows:
        say("nothing to switch back" if arguments.undo else f"{rehearsal} leads no group")
        return 0
    if arguments.dry_run:
        shown = ([row["broker_group"], row["master"], row["to"] or None, row["reason"]] for row in rows)
        table(["group", "from", "to", "can't be switched over because"], shown)
        return int(any(row["reason"] for row in rows))
    outcomes = []
    for row in rows:
        outcomes.append(_outcome(arguments, row, rehearsal))
        problem = outcomes[-1]["problem"]
        say(f"{row['broker_group']}: {problem or row['master'] + ' -> ' + row['to']}")
    return _exit_code(outcomes)


def _outcome(arguments: argparse.Namespace, row: dict[str, Any], rehearsal: str) -> dict[str, Any]:
    """Switch over one group, unless it is a dry run; why that failed, "" if it did not."""
    if not row["to"] or arguments.dry_run:
        return {"problem": row["reason"]}
    body = {"to": row["to"], "rehearsal": rehearsal, "reason": arguments.reason}
    path = f"broker-groups/{quote(row['broker_group'], safe='')}/switch-over/"
    try:
        console.call(arguments.console, console.token("admin"), "POST", path, json.dumps(body).encode())
    except QmqError as error:
        return {"problem": str(error)}
    return {"problem": ""}


def _exit_code(outcomes: list[dict[str, Any]]) -> int:
    return int(any(one["problem"] for one in outcomes))
