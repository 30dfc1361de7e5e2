"""Settings of the console that are lists with a form of their own."""

import pytest

from console.options import SYSTEMS_MAX, ConsoleOptions, named_urls, time_zone
from qmq.errors import SettingError


def test_systems_are_names_with_urls() -> None:
    text = "Production=https://qmq.example.com, Staging = https://qmq.staging.example.com:8443/ ,"
    assert named_urls(text, "QMQ_SYSTEMS") == [
        {"name": "Production", "url": "https://qmq.example.com"},
        {"name": "Staging", "url": "https://qmq.staging.example.com:8443/"},
    ]
    assert named_urls("", "QMQ_SYSTEMS") == []


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_limit_of_rows_that_stores_none_is_refused(text: str) -> None:
    variable = "QMQ_ANALYTICS_MINUTE_ROWS_MAX"
    with pytest.raises(SettingError, match=rf"{variable}.*{text}.*whole number of at least 1"):
        ConsoleOptions.read({variable: text})
    assert ConsoleOptions.read({variable: "1"}).analytics_minute_rows_max == 1
    assert ConsoleOptions.read({}).analytics_minute_rows_max == 20_000


@pytest.mark.parametrize("name", ["Europe/Berlyn", "", "../etc/passwd", "/etc/localtime", "Europe", "a\0b"])
def test_an_unknown_time_zone_is_refused_by_name(name: str) -> None:
    with pytest.raises(SettingError) as refused:
        time_zone(name, "QMQ_ANALYTICS_ZONE")
    assert str(refused.value) == f"QMQ_ANALYTICS_ZONE is {name!r}; must be a time zone such as UTC or Europe/Berlin"


def test_anomalies_go_by_utc_unless_another_time_zone_is_set() -> None:
    assert ConsoleOptions.read({}).analytics_zone == "UTC"
    zone = time_zone(ConsoleOptions.read({"QMQ_ANALYTICS_ZONE": "Europe/Berlin"}).analytics_zone, "QMQ_ANALYTICS_ZONE")
    assert zone.key == "Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Production", "QMQ_SYSTEMS has 'Production': must be NAME=URL"),
        ("=https://a", "must be NAME=URL"),
        ("A=javascript:alert(1)", "with a URL of http or https"),
        ("A=https://", "must be NAME=URL"),
        ("A=http://a,A=http://b", "the name 'A' twice"),
        (",".join(f"S{i}=http://s{i}" for i in range(SYSTEMS_MAX + 1)), f"at most {SYSTEMS_MAX}"),
    ],
)
def test_other_systems_are_refused(text: str, problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        named_urls(text, "QMQ_SYSTEMS")
