"""`qmq produce --delay` and `qmq delayed` against real nodes; the command itself runs in this process."""

import contextlib
import io
import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from qmq.cli import main
from tests.support.servers.system import System
from tests.support.waiting import eventually


def qmq(system: System, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """What the `qmq` command prints, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([*arguments, "--meta", system.meta_url])
        except SystemExit as ended:  # by the parser of arguments
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def answer(served: System, *arguments: str, code: int = 0) -> Any:
    done = qmq(served, *arguments, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_produce_with_a_delay_and_consume_it_on_time(served: System) -> None:
    sent = answer(served, "produce", "later.tea", "-p", "n=1", "--delay", "1500ms")
    (due_ms,) = sent["due_ms"].values()
    done = qmq(served, "consume", "later.tea", "g", "--count", "1", "--timeout", "15")
    assert done.returncode == 0, done.stderr
    assert time.time() * 1000 >= due_ms
    assert json.loads(done.stdout)["message_id"] in sent["due_ms"]


def test_list_show_reschedule_deliver_cancel(served: System) -> None:
    answer(served, "produce", "later.orders", "-p", "vip=1", "--delay", "1h30m", "--count", "3")
    other = answer(served, "produce", "later.orders", "--due", "2027-12-24T18:00:00+01:00")
    listed = answer(served, "delayed", "list", "later.orders")
    assert [message["due_at"] for message in listed["messages"]][-1] == "2027-12-24T17:00:00.000Z"
    assert len(listed["messages"]) == 4
    assert not listed["has_more"]
    assert answer(served, "delayed", "list", "later.orders", "--limit", "2")["has_more"]
    near = answer(served, "delayed", "list", "later.orders", "--to", "2027-01-01T00:00:00Z", "--match", "vip=1")
    assert len(near["messages"]) == 3
    first, second, third = [message["message_id"] for message in near["messages"]]

    (shown,) = answer(served, "delayed", "show", first)["messages"]
    assert shown["state"] == "pending"
    assert shown["properties"]["vip"] == "1"
    assert answer(served, "delayed", "reschedule", first, "--due", "2027-03-01T00:00:00Z")["outcome"] == "done"
    assert answer(served, "delayed", "reschedule", first, "--due", "2027-03-01T00:00:00Z")["outcome"] == "unchanged"
    assert answer(served, "delayed", "cancel", second, "--was-due", near["messages"][1]["due_at"])["outcome"] == "done"
    assert answer(served, "delayed", "deliver", second, code=1)["outcome"] == "too_late"
    assert answer(served, "delayed", "deliver", third)["outcome"] == "done"
    came = qmq(served, "consume", "later.orders", "g", "--count", "1", "--timeout", "15")
    assert json.loads(came.stdout)["message_id"] == third
    assert answer(served, "delayed", "cancel", third, code=1)["outcome"] == "too_late"
    assert answer(served, "delayed", "cancel", "missing", code=1)["outcome"] == "not_found"

    hours = {
        entry["hour"]: entry["pending"] for entry in answer(served, "delayed", "calendar", "later.orders")["hours"]
    }
    assert hours == {"2027-03-01T00:00:00.000Z": 1, "2027-12-24T17:00:00.000Z": 1}
    counted = answer(served, "delayed", "cancel", "--subject", "later.orders", "--match", "vip=1", "--dry-run")
    assert (counted["matched"], counted["cancelled"]) == (1, 0)
    everything = ("delayed", "cancel", "--subject", "later.orders", "--all")
    differs = qmq(served, *everything, "--expected", "3")
    assert (differs.returncode, "2 messages of later.orders match, 3 were expected" in differs.stderr) == (1, True)
    assert answer(served, *everything, "--dry-run")["matched"] == 2
    assert answer(served, *everything, "--expected", "2")["cancelled"] == 2
    assert answer(served, "delayed", "show", other["message_ids"][0])["messages"][0]["state"] == "cancelled"
    text = qmq(served, "delayed", "list", "later.orders", "--state", "cancelled")
    assert text.stdout.count("cancelled") == 3


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("produce", "later.orders", "--delay", "soon"), 2, "'soon' is not a duration"),
        (("produce", "later.orders", "--due", "2027-01-01T00:00:00"), 2, "has no time zone"),
        (("produce", "later.orders", "--due", "2027-01-01T00:00:00Z", "--delay", "5s"), 2, "not allowed with"),
        (("produce", "later.orders", "--delay", "1000d"), 1, "delay.too_far"),
        (("delayed", "cancel"), 2, "specify a message ID"),
        (("delayed", "cancel", "m1", "--match", "a=b"), 2, "require --subject"),
        (("delayed", "cancel", "--subject", "later.orders", "--expected", "1"), 2, "--all to cancel every message"),
        (("delayed", "cancel", "--subject", "later.orders", "--all"), 2, "specify --expected N"),
        (("delayed", "list", "later.orders", "--match", "ab"), 2, "KEY=VALUE"),
        (("delayed", "reschedule", "m1"), 2, "one of the arguments"),
        (("delayed", "show", "missing"), 1, "delayed message missing not found"),
    ],
)
def test_wrong_use_says_what_and_why(served: System, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = qmq(served, *arguments)
    assert done.returncode == code
    assert words in done.stderr + done.stdout


def test_without_a_delay_group_the_command_says_how_to_start_one(new_system: Callable[..., System]) -> None:
    bare = new_system(groups=0)
    bare.meta.start()
    done = qmq(bare, "delayed", "calendar")
    assert done.returncode == 1
    assert "python -m delay_node" in done.stderr


def test_the_admin_pages_ask_and_change(served: System) -> None:
    import urllib.error
    import urllib.request

    sent = answer(served, "produce", "later.pages", "-p", "n=1", "--delay", "2h")
    (message_id,) = sent["message_ids"]
    (shown,) = served.admin("d1", f"/delayed/message?message_id={message_id}")["messages"]
    assert shown["state"] == "pending"
    assert served.admin("d1", "/delayed?subject=later.pages&match.n=1")["messages"] == [shown]
    assert [hour["pending"] for hour in served.admin("d1", "/calendar?subject=later.pages")["hours"]] == [1]

    def post(path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{served.ports['d1'][1]}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as done:
            return json.load(done)

    moved = post(
        "/delayed/reschedule", {"message_id": message_id, "to": "2027-05-01T00:00:00Z", "due_ms": shown["due_ms"]}
    )
    assert (moved["outcome"], moved["state"]) == ("done", "pending")
    bulk = {"subject": "later.pages", "match": {"n": "1"}}
    for wrong in ({"subject": "later.pages"}, bulk | {"all": True}, bulk | {"dryrun": True}, {"mach": {"n": "1"}}):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            post("/delayed/bulk-cancel", wrong)
    assert post("/delayed/bulk-cancel", bulk | {"dry_run": True})["matched"] == 1
    assert post("/delayed/bulk-cancel", bulk)["cancelled"] == 1
    assert post("/delayed/cancel", {"message_id": message_id})["outcome"] == "unchanged"

    def are_alike() -> bool:
        # Messages of other tests can fall due between the two requests.
        pending = sum(hour["pending"] for hour in served.admin("d1", "/calendar")["hours"])
        return bool(served.admin("d1", "/stats")["pending"] == pending)

    eventually(are_alike, what="the calendar has what is pending")
    with urllib.request.urlopen(f"http://127.0.0.1:{served.ports['d1'][1]}/metrics") as page:
        text = page.read().decode()
    for name in ("pending_messages", "due_soon_messages", "lateness_seconds_bucket", "delivered_messages_total",
                 "wheel_memory_bytes"):  # fmt: skip
        assert f"qmq_delay_{name}" in text
