"""The demo's pure parts: the shop's data, its messages, and when they are due."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from console.accounts.names import username_problem
from examples.shop.bodies import FAULTS, Bodies
from examples.shop.schedule import DAYS, SOON, due_times
from examples.shop.shop import Pace, Shop, read_shop
from qmq.protocol.names import check_group, check_subject

NOW = datetime(2026, 3, 4, 9, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def shop() -> Shop:
    return read_shop()


def test_the_shop_is_whole(shop: Shop) -> None:
    assert len(shop.subjects) >= 40
    assert len(list(shop.groups())) >= 80
    assert {group.pace for _, group in shop.groups()} == set(Pace)
    bodies = Bodies(Random(1))
    for subject in shop.subjects:
        check_subject(subject.name)
        assert subject.settings["owner"] in shop.teams
        assert bodies.make(subject.kind)
    for _, group in shop.groups():
        check_group(group.name)
    for person in shop.people:
        assert not username_problem(person["username"])
        assert set(person["teams"]) <= shop.teams.keys()
    assert {person["role"] for person in shop.people} == {"viewer", "operator", "admin"}


def test_the_same_seed_makes_the_same_messages() -> None:
    first, again, other = (Bodies(Random(seed)) for seed in (7, 7, 8))
    made = [first.make("order") for _ in range(20)]
    assert made == [again.make("order") for _ in range(20)]
    assert made != [other.make("order") for _ in range(20)]


def test_messages_are_json_and_some_payments_are_spoiled_in_each_way() -> None:
    bodies = Bodies(Random(7))
    made = [bodies.make("payment")[0] for _ in range(2_000)]
    assert all("order_id" in json.loads(properties["data"]) for properties in made)
    faults = Counter(properties["fault"] for properties in made if "fault" in properties)
    assert set(faults) == set(FAULTS)
    assert 30 <= sum(faults.values()) <= 90
    names = {json.loads(bodies.make("customer")[0]["data"])["customer"]["name"] for _ in range(200)}
    assert any(name.isascii() for name in names)
    assert any("\u4e00" <= name[0] <= "\u9fff" for name in names)


def test_due_times_follow_the_business() -> None:
    times = due_times(NOW, 4_000, 60, Random(7))
    assert times == sorted(times) == due_times(NOW, 4_000, 60, Random(7))
    assert len(times) == 4_000
    assert times[0] > NOW
    assert times[-1] < NOW + timedelta(days=DAYS)
    assert sum(at <= NOW + SOON for at in times) >= 60
    by_hour = Counter(at.hour for at in times)
    assert by_hour[9] > 10 * by_hour[3]
    days = {(NOW + timedelta(days=number)).date() for number in range(DAYS)}
    assert len({at.date() for at in times} & days) == DAYS
