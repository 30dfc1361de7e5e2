"""`qmq broker-groups`: members of broker groups, switch-overs, and promotions and removals that accept data loss."""

import argparse
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from qmq.cli import console, rehearsals
from qmq.cli.output import say, say_json, table
from qmq.cli.values import whole

HISTORY_SHOWN = 10
"""Role changes that `show` prints."""


def _bytes(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes")
    return int(text)


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    group = commands.add_parser("broker-groups", help="show and change the members of broker groups")
    actions = group.add_subparsers(dest="action", required=True)

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str, description: str = "") -> Any:
        command = actions.add_parser(name, help=text, description=description or None)
        command.set_defaults(run=run)
        return command

    def add_change(command: Any) -> None:
        command.add_argument("--reason", default="", help="reason for the audit log")
        command.add_argument("--dry-run", action="store_true", help="show what would happen")

    listing = add("list", show_list, "list broker groups with their masters and in-sync members")
    shown = add("show", show, "show the members of a broker group, and their latest role changes")
    switching = add(
        "switch-over", switch_over, "have a slave become the master",
        "Has a slave of a broker group become its master. Requests of clients wait meanwhile, and none is rejected.",
    )  # fmt: skip
    rehearsing = add("rehearse", rehearsals.rehearse, rehearsals.HELP, rehearsals.DESCRIPTION)
    rehearsals.add_arguments(rehearsing)
    stopping = add(
        "may-stop", may_stop, "say whether a node may be stopped now",
        "Exit code 0 if the node may be stopped now. Exit code 1, with the reasons, if its broker group would have no copy that"
        " could become the master, fewer in-sync members than its minimum, or no copy at all.",
    )  # fmt: skip
    promoting = add(
        "promote", promote, "promote a member that may lack acknowledged messages",
        "Promotes a member that is not in sync, or any member after the database was restored from a backup. Acknowledged"
        " messages that it lacks are permanently lost. The bytes at risk, which --dry-run prints, have to be stated exactly.",
    )  # fmt: skip
    setting = add("set", set_copies, "set the number of copies, and how many of them have to be in sync")
    removing_group = add(
        "remove", remove, "remove a broker group that is lost",
        "Removes a broker group whose nodes have sent no heartbeat for a minute, with the loss of its messages. Its subjects leave"
        " it at once, those that no other group serves when another one has joined. The loss, which --dry-run prints, has to be"
        " stated exactly: pending messages of a delay group, bytes of a broker group. A node that returns waits for approval.",
    )  # fmt: skip
    of_members = actions.add_parser("members", help="remove or replace members").add_subparsers(
        dest="members_action", required=True
    )
    removing = of_members.add_parser(
        "remove",
        help="remove a member",
        description="Removes a member of a broker group, without an error for clients; the master switches over first. The node is"
        " a spare until its data folder is emptied. Of a replacement that is pending, removing the new node cancels it.",
    )
    removing.set_defaults(run=remove_member)
    replacing = of_members.add_parser(
        "replace",
        help="replace a member by another node",
        description="Has another node replace a member of a broker group, without an error for clients. The new node is to be"
        " started with an empty data folder; metaservers complete the replacement.",
    )
    replacing.set_defaults(run=replace_member)
    for command in (shown, switching, promoting, setting, removing_group, removing, replacing):
        command.add_argument("group", help="name of the broker group")
    switching.add_argument("--to", default="", help="node ID of the slave; default: the one that has the most")
    stopping.add_argument("node", help="node ID")
    promoting.add_argument("node", help="node ID of the member")
    promoting.add_argument(
        "--accept-loss", type=_bytes, metavar="BYTES", help="bytes of acknowledged messages that may be lost; required"
    )
    removing_group.add_argument(
        "--accept-loss", type=_bytes, metavar="BYTES", help="the loss, as --dry-run prints it; required"
    )
    removing.add_argument("node", help="node ID of the member")
    replacing.add_argument("node", metavar="old", help="node ID of the member")
    replacing.add_argument("replacement", metavar="new", help="node ID of the other node")
    setting.add_argument("--copies", type=whole, help="number of members that the group should have, 1 to 3")
    setting.add_argument("--min", type=whole, help="members that have to be in sync so that sends are accepted")
    setting.add_argument(
        "--preferred", metavar="NODES", help="node IDs, separated by commas: of equal members, the first is promoted"
    )
    setting.add_argument(
        "--remove", metavar="NODES", default="", help="node IDs of members to remove, separated by commas"
    )
    for command in (switching, rehearsing, promoting, setting, removing_group, removing, replacing):
        add_change(command)
    for command in (
        listing,
        shown,
        switching,
        rehearsing,
        stopping,
        promoting,
        setting,
        removing_group,
        removing,
        replacing,
    ):
        console.add_arguments(command)


def _ask(arguments: argparse.Namespace, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    return console.call(arguments.console, console.token("read" if method == "GET" else "admin"), method, path, data)


def _path(group: str, action: str = "") -> str:
    return f"broker-groups/{quote(group, safe='')}/{action}"


def _change(arguments: argparse.Namespace, action: str, body: dict[str, Any]) -> int:
    """Make a change, or plan it; the exit code."""
    query = "?dry_run=true" if arguments.dry_run else ""
    answer = _ask(arguments, "POST", f"{_path(arguments.group, action)}{query}", {**body, "reason": arguments.reason})
    if arguments.json:
        say_json(answer, indent=2)
        return 0
    before, after = answer["before"] or {}, answer["after"] or {}
    changed = [name for name in after if after[name] != before.get(name)]
    for name in changed:
        was = f"{_shown(before[name])} -> " if name in before else ""
        say(f"{name.replace('_', ' ')}: {was}{_shown(after[name])}")
    if not changed:
        say("nothing changes" if arguments.dry_run else "nothing changed")
    for note in answer["notes"]:
        say(note["text"])
    return 0


def _shown(value: Any) -> str:
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)


# --- commands -----------------------------------------------------------------------------------------------------


def show_list(arguments: argparse.Namespace) -> int:
    """Print all broker groups; the exit code."""
    found: list[dict[str, Any]] = []
    path = "broker-groups/"
    while path:
        answer = _ask(arguments, "GET", path)
        found += answer["results"]
        path = f"broker-groups/?cursor={quote(answer['next'], safe='')}" if answer["next"] else ""
    if arguments.json:
        say_json({"broker_groups": found}, indent=2)
    elif found:
        rows = (
            [one["name"], one["kind"], one["state"], one["master"] or None, one["epoch"], _in_sync(one), one["copies"]]
            for one in found
        )
        table(["group", "kind", "state", "master", "epoch", "in sync", "copies"], rows)
    else:
        say("no broker group has registered yet")
    return 0


def _in_sync(group: dict[str, Any]) -> str:
    return f"{len(group['in_sync'])} of {len(group['members'])}"


def _minimum(group: dict[str, Any]) -> str:
    """The minimum that applies, and the one that is set if that is another."""
    applies, is_set = group["in_sync_min_in_force"], group["in_sync_min"]
    return str(applies) if applies == is_set else f"{applies} ({is_set} once {is_set} members have been in sync)"


def show(arguments: argparse.Namespace) -> int:
    """Print one broker group; the exit code."""
    group = _ask(arguments, "GET", _path(arguments.group))
    if arguments.json:
        say_json(group, indent=2)
        return 0
    say(f"{group['kind']} group {group['name']}, {group['state']}, epoch {group['epoch']}")
    say(f"{_in_sync(group)} members in sync, minimum {_minimum(group)}, copies {group['copies']}")
    if group["replacement"]:
        say(f"node {group['replacement']} is to replace {group['replaced']}")
    if group["preferred"]:
        say(f"preferred as master: {', '.join(group['preferred'])}")
    if group["candidate_problem"]:
        say(f"no member could replace the master: {group['candidate_problem']}")
    heading = ["node", "role", "in sync", "epoch", "log end", "lag", "rack", "can't be promoted because"]
    table(heading, map(_member_row, group["member_states"]))
    for member in group["member_states"]:
        for limitation in member["limitations"]:
            say(f"node {member['node_id']}: {limitation['text']}")
    for change in group["role_history"][:HISTORY_SHOWN]:
        master = (change["after"] or {}).get("master")
        what = change["action"].removeprefix("broker_group.").replace("_", " ")
        say(f"{change['at']}  {what}{f', master {master}' if master else ''}: {change['reason'] or change['actor']}")
    return 0


def _member_row(member: dict[str, Any]) -> list[object]:
    in_sync = "yes" if member["in_sync"] else "no"
    place = (member["epoch"], member["log_end"], member["lag_bytes"], member["rack"] or None)
    return [member["node_id"], member["role"], in_sync, *place, member["problem"]]


def switch_over(arguments: argparse.Namespace) -> int:
    """Have a slave become the master; return the exit code."""
    return _change(arguments, "switch-over/", {"to": arguments.to})


def may_stop(arguments: argparse.Namespace) -> int:
    """0 if the node may be stopped now, else 1."""
    answer = _ask(arguments, "GET", f"nodes/{quote(arguments.node, safe='')}/may-stop/")
    if arguments.json:
        say_json(answer, indent=2)
    else:
        for reason in answer["reasons"] or [f"node {arguments.node} may be stopped"]:
            say(reason)
    return 0 if answer["may_stop"] else 1


def promote(arguments: argparse.Namespace) -> int:
    """Promote a member; the exit code."""
    return _change(arguments, "promote/", {"node": arguments.node, "accept_loss_bytes": arguments.accept_loss})


def remove(arguments: argparse.Namespace) -> int:
    """Remove a broker group with the loss of its messages; the exit code."""
    return _change(arguments, "remove-lost/", {"accept_loss": arguments.accept_loss})


def set_copies(arguments: argparse.Namespace) -> int:
    """Set copies, minimum and order; the exit code."""
    preferred = None if arguments.preferred is None else [name for name in arguments.preferred.split(",") if name]
    removed = [name for name in arguments.remove.split(",") if name] or None
    values = {"copies": arguments.copies, "in_sync_min": arguments.min, "preferred": preferred, "remove": removed}
    return _change(arguments, "copies/", {name: value for name, value in values.items() if value is not None})


def remove_member(arguments: argparse.Namespace) -> int:
    """Remove a member; the exit code."""
    return _change(arguments, "members/remove/", {"node": arguments.node})


def replace_member(arguments: argparse.Namespace) -> int:
    """Have another node replace a member; the exit code."""
    return _change(arguments, "members/replace/", {"node": arguments.node, "replacement": arguments.replacement})
