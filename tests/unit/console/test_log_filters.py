"""Lines that any client can cause: limited in the log, and never a traceback."""

import io
import logging
from collections.abc import Iterator
from logging.config import DictConfigurator  # type: ignore[attr-defined]

import pytest
from django.conf import settings
from django.test import Client

from console.http.log_filters import SERVER_LOGGER, ClientFaults
from tests.support.manual_clock import ManualClock


class Log:
    """What the console's log handler writes, with its filters as they are configured but on a clock of the test."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._written = io.StringIO()
        self.handler = logging.StreamHandler(self._written)
        for name in settings.LOGGING["handlers"]["console"]["filters"]:
            filter_class = DictConfigurator(settings.LOGGING).resolve(settings.LOGGING["filters"][name]["()"])
            self.handler.addFilter(ClientFaults(self.clock) if filter_class is ClientFaults else filter_class())
        self.handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))

    @property
    def lines(self) -> list[str]:
        return self._written.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    log = Log()
    logging.getLogger().addHandler(log.handler)
    try:
        yield log
    finally:
        logging.getLogger().removeHandler(log.handler)


def ask(times: int, path: str = "/api/v1/me/", host: str = "testserver", address: str = "192.0.2.1") -> None:
    for _ in range(times):
        assert Client().get(path, headers={"host": host}, REMOTE_ADDR=address).status_code in (400, 404)


def test_wrong_hosts_are_one_warning_without_a_traceback(log: Log) -> None:
    ask(50, host="evil.example")
    (line,) = [line for line in log.lines if "django.security" in line]
    assert line.startswith("WARNING django.security.DisallowedHost Invalid HTTP_HOST header: 'evil.example'")
    assert len(log.lines) == 1
    log.clock.advance(10)
    ask(1, host="evil.example")
    assert [line for line in log.lines if "django.security" in line][1].endswith("(49 more since the last line)")


def test_answers_for_what_is_not_there_are_one_line_for_each_network(log: Log) -> None:
    ask(20, path="/api/v1/nothing/")
    assert log.lines == ["WARNING django.request Not Found: /api/v1/nothing/"]
    ask(1, path="/api/v1/nothing/", address="192.0.2.2")
    ask(1, host="evil.example")
    assert len(log.lines) == 3, "other addresses and other faults have lines of their own"


def test_faults_of_ours_are_all_logged_as_they_are(log: Log) -> None:
    for name in ("django.request", SERVER_LOGGER, "qmq.api"):
        for _ in range(3):
            try:
                raise ValueError(name)
            except ValueError:
                logging.getLogger(name).exception("a fault of ours")
    assert sum(line.startswith("ERROR") for line in log.lines) == 9
    assert sum(line.startswith("Traceback") for line in log.lines) == 9


def test_lines_of_the_web_server_about_bad_requests_are_limited(log: Log) -> None:
    for _ in range(20):
        # Past the logger, which has such a filter of its own.
        log.handler.handle(
            logging.makeLogRecord({"name": SERVER_LOGGER, "levelno": logging.WARNING, "msg": "Bad request."})
        )
    assert len(log.lines) == 1
