"""Numbers and times of the wire are read within bounds, whatever they are."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmq.client.delivery import created_at
from qmq.protocol.values import INT_MAX, LONG_MAX, TIME_MS_MAX, TIME_MS_MIN, moment, whole_number
from tests.support.load.nonsense import VALUES


@pytest.mark.parametrize("what", VALUES)
def test_a_property_is_a_number_that_java_reads_or_the_default(what: str) -> None:
    text = VALUES[what].decode("utf-8", "replace")
    numbers = {"0": 0, "2^31 - 1": INT_MAX}
    assert whole_number(text, 5) == numbers.get(what, 5)
    longs = {
        "2^31": 2**31,
        "2^32": 2**32,
        "2^63 - 1": LONG_MAX,
        "18 nines": 10**18 - 1,
        "microseconds": 1_700_000_000_000_000,
    }
    assert whole_number(text, None, LONG_MAX) == (numbers | longs).get(what)


@given(st.integers(-(2**63), LONG_MAX))
def test_a_time_outside_of_the_calendar_is_its_nearest_end(ms: int) -> None:
    found = moment(ms)
    assert found.tzinfo is UTC
    if TIME_MS_MIN <= ms <= TIME_MS_MAX:
        assert (found - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000 == pytest.approx(ms)
    else:
        assert found.year == (9999 if ms > 0 else 1)


def test_a_create_time_outside_of_the_calendar_is_that_of_the_raw_message() -> None:
    assert created_at(str(TIME_MS_MAX + 1), 0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert created_at(str(TIME_MS_MAX), 0) == datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert created_at("9" * 19, LONG_MAX).year == 9999
    assert created_at(None, -LONG_MAX - 1).year == 1
