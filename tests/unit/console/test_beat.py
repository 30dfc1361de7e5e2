"""Celery beat while Redis is away."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from kombu.exceptions import OperationalError

from console.celery_beat import QuietScheduler


def scheduler_of(errors: list[Exception | None]) -> QuietScheduler:
    """A scheduler whose sends fail with these errors, one after the other; None: it is sent."""
    app = Celery("test", set_as_current=False)
    scheduler = QuietScheduler(app, lazy=True)

    def send(*_: Any, **__: Any) -> SimpleNamespace:
        if error := errors.pop(0):
            raise error
        return SimpleNamespace(id="1")

    scheduler.send_task = send
    return scheduler


def lines(caplog: pytest.LogCaptureFixture, *errors: Exception | None) -> list[tuple[str, bool]]:
    """What is logged when these happen: text, and whether there is a traceback."""
    scheduler = scheduler_of(list(errors))
    with caplog.at_level(logging.INFO):
        for _ in errors:
            scheduler.apply_entry(ScheduleEntry(name="moves", task="test.job", schedule=2.0, app=scheduler.app))
    return [(record.getMessage(), bool(record.exc_info)) for record in caplog.records]


def test_an_outage_of_redis_is_one_line_and_its_end_another(caplog: pytest.LogCaptureFixture) -> None:
    away = OperationalError("Error 111 connecting to 127.0.0.1:6390. Connection refused.")
    assert lines(caplog, None, away, away, away, None, None, away) == [
        (f"Redis is away, no jobs are scheduled until it is back: {away}", False),
        ("Redis is back, jobs are scheduled again", False),
        (f"Redis is away, no jobs are scheduled until it is back: {away}", False),
    ]


def test_other_errors_have_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(caplog, ValueError("a bug"), None) == [("job moves can't be scheduled", True)]
