"""`qmq groups` against scripted answers of the console."""

import json
from typing import Any

import pytest

from qmq.cli import console, main

ROW = {
    "subject": "a/b", "group": "billing", "state": "growing", "lag": 40, "time_lag_seconds": 65.04, "drain_seconds": None,
    "not_draining": "too_slow", "consumers_online": 1, "reason": None,
}  # fmt: skip
UNKNOWN = {**dict.fromkeys(ROW), "group": "audit", "state": "unknown", "reason": "node g1-a: connection refused"}
MEMBER = {
    "consumer_id": "c1", "broker_group": "g1", "online": True, "is_paused": False, "in_flight": 3, "last_seen_seconds": 1.0,
    "address": "10.0.0.1:5",
}  # fmt: skip
GROUP = {
    "name": "billing", "subject": "a/b", "state": "stopped", "lag": 4, "unknown_reason": None,
    "diagnosis": [{"code": "no_consumers", "severity": "critical", "values": {"lag": 4, "arriving": None}}],
    "members": [MEMBER, {**MEMBER, "consumer_id": "c2", "online": False, "last_seen_seconds": None, "address": None}],
    "members_total": 5,
}  # fmt: skip


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    monkeypatch.setattr(console, "call", lambda url, token, method, path: found[path])
    monkeypatch.setenv("QMQ_TOKEN", "secret")
    return found


def run(*arguments: str) -> int:
    return main(["groups", *arguments, "--console", "http://c:1"])


def test_the_groups_of_a_subject_are_listed_page_by_page(
    answers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = "lag/?subject=a%2Fb&ordering=group"
    answers[path] = {"results": [UNKNOWN], "next": "x/"}
    answers[f"{path}&cursor=x%2F"] = {"results": [ROW], "next": None}
    assert run("list", "a/b") == 0
    _, first, second, reason = capsys.readouterr().out.splitlines()
    assert first.split() == ["audit", "unknown", "-", "-", "-", "-"]
    assert second.split() == ["billing", "growing", "40", "65.0", "s", "too", "slow", "1"]
    assert reason == "group audit: node g1-a: connection refused"
    assert run("list", "a/b", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"subject": "a/b", "groups": [UNKNOWN, ROW]}
    answers[path] = {"results": [], "next": None}
    assert run("list", "a/b") == 0
    assert capsys.readouterr().out == "subject a/b has no consumer groups\n"


def test_a_group_is_shown_with_its_diagnosis_and_consumers(
    answers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = "consumer-groups/a%2Fb/billing/"
    answers[path] = GROUP
    assert run("show", "a/b", "billing") == 0
    group, finding, _, *members, rest = capsys.readouterr().out.splitlines()
    assert group == "group billing of a/b, stopped, lag 4"
    assert finding == "critical: no consumers (lag 4)"
    assert [line.split() for line in members] == [
        ["c1", "g1", "yes", "no", "3", "1.0", "s", "10.0.0.1:5"], ["c2", "g1", "no", "no", "3", "-", "-"],
    ]  # fmt: skip
    assert rest == "3 more"
    assert run("show", "a/b", "billing", "--json") == 0
    assert json.loads(capsys.readouterr().out) == GROUP


def test_a_lag_that_is_not_known_is_not_0(answers: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    why = "broker group g1: timed out"
    answers["consumer-groups/a%2Fb/billing/"] = {
        **GROUP, "state": "unknown", "lag": None, "unknown_reason": why, "diagnosis": [], "members": [], "members_total": 0,
    }  # fmt: skip
    assert run("show", "a/b", "billing") == 0
    assert capsys.readouterr().out == f"group billing of a/b, unknown, lag unknown\n{why}\n"
    answers["consumer-groups/a%2Fb/billing/"] |= {"state": "idle", "lag": 0, "unknown_reason": None}
    assert run("show", "a/b", "billing") == 0
    assert capsys.readouterr().out == "group billing of a/b, idle, lag 0\nno consumers\n"
