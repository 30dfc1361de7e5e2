"""The tree of subjects: each subject is in exactly one place, whatever characters names have; unknown is never zero."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.reports.subject_tree import Node, children, numbers_of

names_of_subjects = st.lists(st.text("ab.-/", min_size=1, max_size=6), unique=True).map(sorted)


def leaves(names: list[str], folder: str, count: int) -> list[str]:
    """All subjects below a folder, read in pages of `count` children."""
    found: list[str] = []
    begin = ""
    while page := children(names, folder, begin, count):
        for node in page:
            subjects = names[node.begin : node.end]
            if node.is_folder:
                assert len(node.name) > len(folder)
                assert leaves(names, node.name, count) == subjects
            else:
                assert subjects == [node.name]
            found += subjects
        begin = names[page[-1].end] if page[-1].end < len(names) else "\U0010ffff"
        assert begin > names[page[-1].begin]
    return found


@given(names_of_subjects, st.integers(1, 3))
def test_each_subject_is_in_one_place_and_pages_leave_none_out(names: list[str], count: int) -> None:
    assert leaves(names, "", count) == names


def test_a_subject_and_the_folder_of_its_name() -> None:
    names = sorted(["order", "order.paid", "order.paid-late", "order.paid.eu", "order.paid.us", "parts"])
    assert children(names, "", "", 9) == [
        Node("order", False, 0, 1), Node("order.", True, 1, 5), Node("parts", False, 5, 6),
    ]  # fmt: skip
    assert children(["a."], "a.", "", 9) == [Node("a.", False, 0, 1)], "a subject that is called like its folder"
    assert [node.name for node in children(names, "order.", "", 9)] == [
        "order.paid", "order.paid-late", "order.paid.",
    ]  # fmt: skip
    assert children(names, "none.", "", 9) == []


def entry(rate: float | None, lag: int | None, reason: str | None = None, **others: Any) -> dict[str, Any]:
    return {"send_rate": rate, "highest_lag": lag, "reason": reason, **others}


def test_numbers_are_added_and_the_lag_is_the_highest() -> None:
    found = numbers_of([entry(1.5, 3), entry(2.0, 40), entry(0.25, None)])
    assert found == {"send_rate": 3.75, "highest_lag": 40, "at_least": None, "reason": None}
    assert numbers_of([entry(1.0, None)])["highest_lag"] is None


def test_what_is_unknown_makes_the_others_a_lower_bound() -> None:
    away = entry(None, None, "g1 is away", at_least={"send_rate": 4.0, "highest_lag": 7})
    found = numbers_of([entry(1.0, 3), away])
    assert found == {
        "send_rate": None, "highest_lag": None, "at_least": {"send_rate": 5.0, "highest_lag": 7}, "reason": "g1 is away",
    }  # fmt: skip
    unused = numbers_of([None, entry(1.0, 3)])
    assert unused["reason"] == "not known to any node yet"
    assert (unused["send_rate"], unused["at_least"]) == (None, {"send_rate": 1.0, "highest_lag": 3})
