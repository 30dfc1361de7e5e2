"""What `qmq outbox relay` prints."""

import pytest

from qmq.cli.outbox import _Report
from qmq.errors import DatabaseFailed
from qmq.outbox.relay import Pass


def test_an_outage_is_one_line_until_something_else_happens(capsys: pytest.CaptureFixture[str]) -> None:
    report = _Report(as_json=False)
    for number in range(3):
        report("d", Pass(left=1, problems={"orders": f"message {number} was not confirmed"}))
    assert capsys.readouterr().err == "qmq: orders: message 0 was not confirmed\n"
    report("d", DatabaseFailed("no answer"))
    report("d", Pass(left=1, problems={"orders": "message 4 was not confirmed"}))
    assert capsys.readouterr().err.splitlines() == ["qmq: no answer", "qmq: orders: message 4 was not confirmed"]


def test_passes_that_did_something_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    report = _Report(as_json=False)
    report("d", Pass())
    report("d", Pass(sent=2, ended=1))
    report("d", Pass(is_leader=False))
    out, err = capsys.readouterr()
    assert out == "2 messages sent, 0 to be tried again, 1 for an operator, 0 of unavailable subjects\n"
    assert err == "qmq: another relay serves this table\n"
