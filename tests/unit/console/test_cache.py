"""Values of Django's cache as JSON."""

import pytest

from console.cache import JsonSerializer, UnreadableValue

VALUES = [
    pytest.param([1763844000.123456, 1763843999.5], id="history of a rate limit: allauth and REST framework"),
    pytest.param([], id="empty history"),
    pytest.param(True, id="lock of allauth's limits"),
    pytest.param("y", id="used one-time code"),
    pytest.param("ключ \u0000 😀", id="any text"),
    pytest.param({"a": [None, 1.5, {"b": False}]}, id="nested"),
    pytest.param(None, id="null"),
    pytest.param(0, id="zero"),
    pytest.param(-(2**70), id="large integer"),
]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_comes_back_with_its_type(value: object) -> None:
    serializer = JsonSerializer()
    stored = serializer.dumps(value)
    read = serializer.loads(str(stored).encode() if isinstance(stored, int) else stored)
    assert (read, type(read)) == (value, type(value))


def test_an_integer_stays_one_that_redis_can_count_on() -> None:
    assert JsonSerializer().dumps(5) == 5
    assert JsonSerializer().dumps(True) == b"true"


@pytest.mark.parametrize("value", [b"bytes", object(), {1, 2}, float("nan"), float("inf")])
def test_what_json_has_no_form_for_is_an_error_when_it_is_written(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        JsonSerializer().dumps(value)


@pytest.mark.parametrize("data", [b"", b"\x80\x04N.", b"NaN", b"-Infinity", b"[" * 100_000, b"9" * 10_000, b"\xff"])
def test_what_is_no_json_is_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableValue):
        JsonSerializer().loads(data)
