"""`qmq status`, `qmq subjects`, `qmq lag`: how the system is."""

import argparse
import json
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlencode

from qmq.cli import limits
from qmq.cli.pages import CLUSTER_PAGE, fetch_metaserver_page, node_stats
from qmq.errors import QmqError
from qmq.protocol.names import retry_subject
from qmq.words import counted


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser("status", parents=[shared], help="show broker groups, their states and leases")
    command.set_defaults(run=status)
    command = commands.add_parser(
        "subjects", parents=[shared], help="list subjects and the broker groups that serve them"
    )
    command.add_argument("--prefix", default="", help="only subjects that start with this prefix")
    command.set_defaults(run=subjects)
    command = commands.add_parser("lag", parents=[shared], help="show the lag of all consumer groups of a subject")
    command.add_argument("subject", help="name of the subject")
    command.set_defaults(run=lag)


def table(heading: list[str], rows: Iterable[list[object]]) -> None:
    """Print rows in columns under a heading."""
    texts = [heading, *(["-" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def status(arguments: argparse.Namespace) -> int:
    """0 when all broker groups are read_write, else 1."""
    answer = fetch_metaserver_page(arguments.meta, CLUSTER_PAGE)
    groups = answer["broker_groups"]
    if arguments.json:
        print(json.dumps(answer, indent=2))
    else:
        meta = answer["metaserver"]
        print(f"metaserver {meta['tcp']}, database {meta['database']}, {counted(meta['subjects'], 'subject')}")
        if groups:
            heading = ["group", "kind", "state", "master", "address", "last heartbeat", "subjects", ""]
            table(heading, map(_status_row, groups))
        else:
            print("no broker group has registered yet; start one with `python -m broker_node`")
    return 0 if groups and all(group["state"] == "read_write" for group in groups) else 1


def _status_row(group: dict[str, Any]) -> list[object]:
    master = group["master"] or {}
    silent_seconds = master.get("last_heartbeat_seconds")
    last_seen = None if silent_seconds is None else f"{silent_seconds:.1f} s ago"
    of_master = (master.get("node_id"), master.get("address"), last_seen)
    return [group["name"], group["kind"], group["state"], *of_master, group["subjects"], group["reason"]]


def subjects(arguments: argparse.Namespace) -> int:
    after, found = "", []
    while after is not None:
        query = urlencode({"prefix": arguments.prefix, "after": after})
        answer = fetch_metaserver_page(arguments.meta, f"/meta/subjects?{query}")
        found += answer["subjects"]
        after = answer["next_after"]
    if arguments.json:
        print(json.dumps({"subjects": found}, indent=2))
    elif found:
        rows = ([s["subject"], ", ".join(s["broker_groups"]), s["route_version"]] for s in found)
        table(["subject", "broker groups", "version"], rows)
    else:
        print("no subjects yet; `qmq produce SUBJECT ...` creates one")
    return 0


def lag(arguments: argparse.Namespace) -> int:
    """Print the lag of each consumer group, summed over broker groups; unreachable nodes are reported, never counted as 0."""
    route = fetch_metaserver_page(arguments.meta, f"/meta/subjects/{quote(arguments.subject, safe='')}")
    broker_groups = fetch_metaserver_page(arguments.meta, CLUSTER_PAGE)["broker_groups"]
    masters = {group["name"]: group["master"] or {} for group in broker_groups}
    deadline = time.monotonic() + limits.REACH_SECONDS
    unknown: dict[str, str] = {}
    groups: dict[str, dict[str, Any]] = {}
    for name in route["broker_groups"]:
        address = masters.get(name, {}).get("admin_address")
        try:
            if not address:
                raise QmqError("no admin address registered")
            for subject in node_stats(address, arguments.subject, deadline=deadline)["subjects"]:
                for group in subject["groups"]:
                    _add(groups, name, group)
            for group_name in list(groups):
                retry = node_stats(address, retry_subject(arguments.subject, group_name), deadline=deadline)
                for subject in retry["subjects"]:
                    groups[group_name]["retrying"] += sum(g["lag"] for g in subject["groups"])
        except QmqError as error:
            unknown[name] = str(error)
    answer = {"subject": arguments.subject, "groups": list(groups.values()), "unknown": unknown}
    if arguments.json:
        print(json.dumps(answer, indent=2))
    else:
        _print_lag(answer)
    return 1 if unknown and len(unknown) == len(route["broker_groups"]) else 0


def _add(groups: dict[str, dict[str, Any]], broker_group: str, group: dict[str, Any]) -> None:
    none = {**dict.fromkeys(("backlog", "in_flight", "lag", "retrying", "consumers"), 0), "time_lag_seconds": 0.0}
    total = groups.setdefault(group["group"], {"group": group["group"], **none, "broker_groups": {}})
    for key in ("backlog", "in_flight", "lag"):
        total[key] += group[key]
    time_lags = (total["time_lag_seconds"], group["time_lag_seconds"])
    total["time_lag_seconds"] = None if None in time_lags else max(time_lags)
    total["consumers"] = max(total["consumers"], sum(c["online"] for c in group["consumers"]))
    total["broker_groups"][broker_group] = group["lag"]


def _print_lag(answer: dict[str, Any]) -> None:
    if answer["groups"]:
        names = ("group", "lag", "backlog", "in_flight", "retrying", "time_lag_seconds", "consumers")
        rows = [[group[name] for name in names] for group in answer["groups"]]
        for row in rows:
            row[5] = None if row[5] is None else f"{row[5]:.1f} s"
        table(["group", "lag", "backlog", "in flight", "retrying", "time lag", "consumers"], rows)
    elif not answer["unknown"]:
        print(f"no consumer group has pulled {answer['subject']} yet")
    for name, why in answer["unknown"].items():
        print(f"broker group {name}: unknown, {why}")
