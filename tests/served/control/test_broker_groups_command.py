"""`qmq broker-groups` against a whole console."""

import json
import os
import subprocess
import sys
from typing import Any

from tests.support.servers.processes import PROJECT
from tests.support.servers.shared import NewSystems
from tests.support.servers.system import System
from tests.support.waiting import eventually


def qmq(console: System, *arguments: str) -> tuple[int, str, str]:
    environment = {**os.environ, "QMQ_CONSOLE": f"http://127.0.0.1:{console.port}", "QMQ_TOKEN": console.token}
    done = subprocess.run(
        [sys.executable, "-m", "qmq.cli", "broker-groups", *arguments],
        cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_groups_are_listed_shown_and_set(console_only: System) -> None:
    assert qmq(console_only, "list") == (0, "no broker group has registered yet\n", "")
    console_only.post("/broker-groups/", {"name": "g1"})
    code, listed, _ = qmq(console_only, "list")
    assert (code, listed.splitlines()[1].split()[:3]) == (0, ["g1", "broker", "offline"])
    code, planned, _ = qmq(console_only, "set", "g1", "--copies", "3", "--dry-run")
    assert (code, planned.splitlines()[0]) == (0, "copies: 2 -> 3")
    code, _, problem = qmq(console_only, "set", "g1", "--copies", "1")
    assert (code, problem) == (1, "qmq: in_sync_min: 2 is above the number of copies, 1\n")
    assert qmq(console_only, "set", "g1", "--copies", "3", "--min", "1", "--reason", "third rack")[0] == 0
    code, shown, _ = qmq(console_only, "show", "g1", "--json")
    found = json.loads(shown)
    assert (code, found["copies"], found["in_sync_min"], found["member_states"]) == (0, 3, 1, [])
    code, shown, _ = qmq(console_only, "show", "g1")
    assert "0 of 0 members in sync, minimum 1, copies 3" in shown


def test_what_can_t_be_done_is_one_line(console_only: System) -> None:
    console_only.post("/broker-groups/", {"name": "g2"})
    for arguments, text in (
        (("members", "remove", "g2", "g2-a"), "Node 'g2-a' is not a member of broker group g2."),
        (("members", "replace", "g2", "g2-a", "g2-b"), "Node 'g2-a' is not a member of broker group g2."),
        (("set", "g2", "--copies", "1", "--min", "1", "--remove", "g2-a"), "Node 'g2-a' is not a member"),
        (("show", "none"), "Broker group 'none' not found."),
        (("may-stop", "none"), "Node 'none' not found."),
        (("switch-over", "g2"), "Broker group g2 can't switch over: no node serves as its master."),
        (
            ("promote", "g2", "g2-a", "--accept-loss", "0", "--reason", "x"),
            "Node 'g2-a' is not a member of broker group g2",
        ),
    ):
        code, out, problem = qmq(console_only, *arguments)
        assert (code, out, problem.count("\n")) == (1, "", 1)
        assert text in problem


def test_a_group_of_two_members_is_shown_and_switched_over(new_system: NewSystems) -> None:
    system = new_system(groups=1, copies=2, console=True, collectors=0)
    system.start()

    def shown() -> Any:
        return json.loads(qmq(system, "show", "g1", "--json")[1])

    def are_in_sync() -> bool:
        states = [(member["role"], member["in_sync"], member["problem"]) for member in shown()["member_states"]]
        return sorted(states) == [("in_sync", True, ""), ("master", True, "")]

    eventually(are_in_sync, every_s=0.5)
    found = shown()
    # Whichever registered first.
    master = found["master"]
    (slave,) = set(found["members"]) - {master}
    assert (sorted(found["members"]), found["copies"], found["candidate_problem"]) == (["g1-a", "g1-b"], 2, "")
    assert [change["action"] for change in found["role_history"]] == [
        "broker_group.add_in_sync",
        "broker_group.add_member",
    ]
    code, reasons, _ = qmq(system, "may-stop", slave)
    assert (code, "below its minimum of 2" in reasons) == (1, True)
    assert qmq(system, "set", "g1", "--min", "1")[0] == 0
    code, planned, _ = qmq(system, "switch-over", "g1", "--dry-run")
    assert (code, planned.splitlines()[0]) == (0, f"master: {master} -> {slave}")
    code, done, problem = qmq(system, "switch-over", "g1", "--to", slave, "--reason", "new kernel")
    assert (code, problem) == (0, "")
    assert f"master: {master} -> {slave}" in done
    eventually(lambda: shown()["master"] == slave and are_in_sync(), every_s=0.5)
    assert qmq(system, "may-stop", slave)[0] == 0, "the old master is in sync"
    code, _, problem = qmq(system, "promote", "g1", master, "--accept-loss", "0", "--reason", "x")
    assert (code, f"Node {slave} serves as master" in problem) == (1, True)
    code, removed, problem = qmq(system, "members", "remove", "g1", slave, "--reason", "fewer machines")
    assert (code, problem, f"Node {master} leads the group before {slave} is removed." in removed) == (0, "", True)
    eventually(lambda: [one["role"] for one in shown()["member_states"]] == ["master", "spare"], every_s=0.5)
    assert (shown()["members"], shown()["master"]) == ([master], master)
    code, planned, _ = qmq(system, "members", "replace", "g1", master, "g1-z", "--dry-run")
    assert (code, "Start node g1-z with an empty data folder" in planned) == (0, True)
