"""The numbers of a consumer group: one table for the sums, the API and the lists."""

from api.serializers.analytics import LagNumbers, LagRow
from console.cluster.group_numbers import GROUP_NUMBERS, consumers, longest, total
from console.reports.lag_table import LAG_FIELDS


def test_the_api_and_lists_have_each_number() -> None:
    assert set(LagNumbers().fields) == set(GROUP_NUMBERS)
    assert set(LagRow().fields) == set(LAG_FIELDS)
    assert set(GROUP_NUMBERS) - set(LAG_FIELDS) == {
        name for name, number in GROUP_NUMBERS.items() if not number.is_listed
    }


def test_a_number_that_one_broker_group_does_not_know_is_unknown() -> None:
    known, unknown = {"lag": 3, "age": 1.26}, {"lag": None, "age": None}
    assert (total("lag", [known, known]), longest("age", [known, {"age": 0.5}])) == (6, 1.3)
    assert (total("lag", [known, unknown]), longest("age", [known, unknown])) == (None, None)
    assert (total("lag", []), longest("age", [])) == (0, 0.0)


def test_a_consumer_that_reads_from_two_broker_groups_is_one() -> None:
    one, two = ({"consumers": [{"consumer_id": name, "online": is_on}]} for name, is_on in (("a", True), ("b", False)))
    assert consumers("online", [one, one, two]) == 1
