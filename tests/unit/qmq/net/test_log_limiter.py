"""A repeated event: logged at once, then with a back-off and the number of those between."""

import logging

import pytest

from qmq.net.log_limiter import LogLimiter


def test_the_interval_doubles_up_to_its_limit_and_suppressed_events_are_counted() -> None:
    limiter = LogLimiter(10.0, 40.0)
    admitted = [(now, count) for now in range(200) if (count := limiter.admit("k", now)) is not None]
    assert admitted == [(0, 0), (10, 9), (30, 19), (70, 39), (110, 39), (150, 39), (190, 39)]


def test_keys_do_not_suppress_each_other_and_a_quiet_one_starts_over() -> None:
    limiter = LogLimiter(10.0)
    assert [limiter.admit(key, 0.0) for key in ("a", "b", "a")] == [0, 0, None]
    assert limiter.admit("a", 25.0) == 1
    assert limiter.admit("a", 30.0) is None
    assert limiter.admit("a", 35.0) == 1


def test_only_so_many_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmq.net.log_limiter.KEYS_MAX", 3)
    limiter = LogLimiter()
    for number in range(100):
        assert limiter.admit(number, 0.0) == 0
        assert len(limiter._keys) <= 3


def test_a_line_names_how_many_were_suppressed(caplog: pytest.LogCaptureFixture) -> None:
    limiter, logger = LogLimiter(10.0), logging.getLogger("test")
    for now in range(12):
        limiter.error(logger, "k", f"at {now}", now)
        limiter.warning(logger, "host:1", "why", f"at {now}", now, level=logging.ERROR)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "at 0"),
        ("ERROR", "host:1: at 0 (why)"),
        ("ERROR", "at 10 (9 more since the last line)"),
        ("ERROR", "host:1: at 10 (why; 9 more of this host since the last line)"),
    ]
