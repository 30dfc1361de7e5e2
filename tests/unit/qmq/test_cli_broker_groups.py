"""`qmq broker-groups` against scripted answers of the console."""

import json
from typing import Any

import pytest

from qmq.cli import console, main
from qmq.errors import QmqError

MEMBER = {
    "node_id": "g1-a", "role": "master", "in_sync": True, "epoch": "3", "log_end": "6000", "lag_bytes": 0, "rack": "r1",
    "problem": "", "limitations": [{"code": "disk_full", "values": {}, "text": "its disk is full"}],
}  # fmt: skip
SLAVE = {
    **MEMBER,
    "node_id": "g1-b",
    "role": "offline",
    "in_sync": False,
    "lag_bytes": None,
    "rack": "",
    "problem": "it is not in sync",
    "limitations": [],
}
GROUP = {
    "name": "g1", "kind": "broker", "state": "read_write", "master": "g1-a", "epoch": "3", "in_sync": ["g1-a"],
    "members": ["g1-a", "g1-b"], "copies": 2, "in_sync_min": 2, "in_sync_min_in_force": 2,
    "preferred": ["g1-b"], "candidate_problem": "node g1-b: it is away",
    "replaced": "", "replacement": "",
    "member_states": [MEMBER, SLAVE],
    "role_history": [
        {"at": "2026-01-31T12:00:00Z", "actor": "metaserver", "action": "broker_group.promote", "reason": "g1-b is silent",
         "before": {}, "after": {"master": "g1-a"}}
    ],
}  # fmt: skip
CHANGE = {
    "before": {"master": "g1-a"},
    "after": {"master": "g1-b", "epoch": "4"},
    "notes": [{"code": "requests_held", "values": {"seconds": 0.2}, "text": "Requests were held for 0.2 s."}],
}


class Console:
    """Answers requests of commands."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[tuple[str, str, Any]] = []

    def call(self, url: str, token: str, method: str, path: str, data: bytes | None = None) -> dict[str, Any]:
        assert (url, token) == ("http://c:1", "secret")
        self.requests.append((method, path, None if data is None else json.loads(data)))
        answer = self.answers[path]
        if isinstance(answer, QmqError):
            raise answer
        return dict(answer)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Console:
    found = Console()
    monkeypatch.setattr(console, "call", found.call)
    monkeypatch.setenv("QMQ_TOKEN", "secret")
    return found


def run(*arguments: str) -> int:
    return main(["broker-groups", *arguments, "--console", "http://c:1"])


def test_the_list_goes_on_with_the_next_page(fake: Console, capsys: pytest.CaptureFixture[str]) -> None:
    fake.answers["broker-groups/"] = {"results": [GROUP], "next": "x"}
    fake.answers["broker-groups/?cursor=x"] = {"results": [{**GROUP, "name": "g2", "master": ""}], "next": None}
    assert run("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["g1", "broker", "read_write", "g1-a", "3", "1", "of", "2", "2"]
    assert lines[2].split() == ["g2", "broker", "read_write", "-", "3", "1", "of", "2", "2"]
    assert run("list", "--json") == 0
    assert [group["name"] for group in json.loads(capsys.readouterr().out)["broker_groups"]] == ["g1", "g2"]
    fake.answers["broker-groups/"] = {"results": [], "next": None}
    assert run("list") == 0
    assert capsys.readouterr().out == "no broker group has registered yet\n"


def test_a_group_is_shown_with_members_and_history(fake: Console, capsys: pytest.CaptureFixture[str]) -> None:
    fake.answers["broker-groups/g%2F1/"] = GROUP
    assert run("show", "g/1") == 0
    out = capsys.readouterr().out
    assert (
        "broker group g1, read_write, epoch 3\n1 of 2 members in sync, minimum 2, copies 2\npreferred as master: g1-b"
        in out
    )
    assert "no member could replace the master: node g1-b: it is away" in out
    assert [line.split() for line in out.splitlines() if line.startswith("g1-")] == [
        ["g1-a", "master", "yes", "3", "6000", "0", "r1"],
        ["g1-b", "offline", "no", "3", "6000", "-", "-", "it", "is", "not", "in", "sync"],
    ]
    assert "\nnode g1-a: its disk is full\n" in out
    assert "2026-01-31T12:00:00Z  promote, master g1-a: g1-b is silent" in out
    fake.answers["broker-groups/g%2F1/"] = {**GROUP, "in_sync_min_in_force": 1}
    assert run("show", "g/1") == 0
    assert ", minimum 1 (2 once 2 members have been in sync), copies 2\n" in capsys.readouterr().out
    fake.answers["broker-groups/g%2F1/"] = GROUP
    assert run("show", "g/1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == GROUP


@pytest.mark.parametrize(
    ("arguments", "path", "body"),
    [
        (["switch-over", "g1"], "broker-groups/g1/switch-over/", {"to": "", "reason": ""}),
        (["switch-over", "g1", "--to", "g1-b", "--reason", "x"], "broker-groups/g1/switch-over/", {"to": "g1-b", "reason": "x"}),
        (["promote", "g1", "g1-b", "--accept-loss", "5600", "--reason", "x"], "broker-groups/g1/promote/",
         {"node": "g1-b", "accept_loss_bytes": 5600, "reason": "x"}),
        (["promote", "g1", "g1-b", "--dry-run", "--reason", "x"], "broker-groups/g1/promote/?dry_run=true",
         {"node": "g1-b", "accept_loss_bytes": None, "reason": "x"}),
        (["remove", "g1", "--accept-loss", "5600", "--reason", "x"], "broker-groups/g1/remove-lost/",
         {"accept_loss": 5600, "reason": "x"}),
        (["remove", "g1", "--dry-run", "--reason", "x"], "broker-groups/g1/remove-lost/?dry_run=true",
         {"accept_loss": None, "reason": "x"}),
        (["set", "g1", "--copies", "3", "--min", "2"], "broker-groups/g1/copies/", {"copies": 3, "in_sync_min": 2, "reason": ""}),
        (["set", "g1", "--preferred", "b,a"], "broker-groups/g1/copies/", {"preferred": ["b", "a"], "reason": ""}),
        (["set", "g1", "--preferred", ""], "broker-groups/g1/copies/", {"preferred": [], "reason": ""}),
    ],
)  # fmt: skip
def test_each_change(
    fake: Console, capsys: pytest.CaptureFixture[str], arguments: list[str], path: str, body: dict[str, Any]
) -> None:
    fake.answers[path] = CHANGE
    assert run(*arguments) == 0
    assert fake.requests == [("POST", path, body)]
    assert capsys.readouterr().out == "master: g1-a -> g1-b\nepoch: 4\nRequests were held for 0.2 s.\n"
    assert run(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out) == CHANGE


def test_a_change_that_changes_nothing_says_so(fake: Console, capsys: pytest.CaptureFixture[str]) -> None:
    fake.answers["broker-groups/g1/copies/"] = {"before": {"copies": 2}, "after": {"copies": 2}, "notes": []}
    assert run("set", "g1", "--copies", "2") == 0
    assert capsys.readouterr().out == "nothing changed\n"


def test_may_stop_exits_with_1_and_the_reasons(fake: Console, capsys: pytest.CaptureFixture[str]) -> None:
    fake.answers["nodes/a/may-stop/"] = {"may_stop": True, "reasons": []}
    fake.answers["nodes/b/may-stop/"] = {"may_stop": False, "reasons": ["one", "two"]}
    assert run("may-stop", "a") == 0
    assert capsys.readouterr().out == "node a may be stopped\n"
    assert run("may-stop", "b") == 1
    assert capsys.readouterr().out == "one\ntwo\n"
    assert run("may-stop", "b", "--json") == 1
    assert json.loads(capsys.readouterr().out)["reasons"] == ["one", "two"]


ROW = {"broker_group": "g1", "master": "a", "to": "b", "reason": ""}
ROWS = [
    ROW,
    {**ROW, "broker_group": "g2", "to": "", "reason": "the group has one member"},
    {**ROW, "broker_group": "g3"},
]


def test_a_rehearsal_switches_over_group_by_group(fake: Console, capsys: pytest.CaptureFixture[str]) -> None:
    fake.answers |= {"rehearsals/?rack=r%2F1": {"plan": ROWS, "undo": []}, "broker-groups/g1/switch-over/": CHANGE}
    fake.answers["broker-groups/g3/switch-over/"] = QmqError("no slave", code="x")
    assert run("rehearse", "--rack", "r/1", "--dry-run") == 1
    assert fake.requests == [("GET", "rehearsals/?rack=r%2F1", None)]
    assert "the group has one member" in capsys.readouterr().out
    assert run("rehearse", "--rack", "r/1", "--reason", "drill") == 1
    assert capsys.readouterr().out == "g1: a -> b\ng2: the group has one member\ng3: no slave\n"
    body = {"to": "b", "rehearsal": "rack r/1", "reason": "drill"}
    assert fake.requests[2:] == [("POST", f"broker-groups/{name}/switch-over/", body) for name in ("g1", "g3")]


def test_a_rehearsal_is_switched_back(fake: Console, capsys: pytest.CaptureFixture[str]) -> None:
    fake.answers |= {"rehearsals/": {"plan": [], "undo": [ROW]}, "broker-groups/g1/switch-over/": CHANGE}
    assert run("rehearse", "--undo") == 0
    assert capsys.readouterr().out == "g1: a -> b\n"
    assert fake.requests[-1][2] == {"to": "b", "rehearsal": "", "reason": ""}
    assert run("rehearse", "--undo", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"switch_overs": [{**ROW, "problem": ""}]}
    fake.answers |= {"rehearsals/": {"plan": [], "undo": []}, "rehearsals/?node=n": {"plan": [], "undo": []}}
    assert run("rehearse", "--undo") == run("rehearse", "--node", "n") == 0
    assert capsys.readouterr().out == "nothing to switch back\nnode n leads no group\n"


def test_errors_are_one_line(
    fake: Console, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.answers["broker-groups/g1/promote/"] = QmqError("Promoting node b may lose 7 bytes", code="x")
    assert run("promote", "g1", "b", "--accept-loss", "8") == 1
    assert capsys.readouterr().err == "qmq: Promoting node b may lose 7 bytes\n"
    with pytest.raises(SystemExit) as wrong:
        run("promote", "g1", "b", "--accept-loss", "1k")
    assert wrong.value.code == 2
    assert "'1k' is not a number of bytes" in capsys.readouterr().err
    monkeypatch.delenv("QMQ_TOKEN")
    for arguments, scope in ((["list"], "read"), (["switch-over", "g1"], "admin")):
        assert run(*arguments) == 2
        assert f"set QMQ_TOKEN to an API token with scope {scope}" in capsys.readouterr().err
