"""Changes of subjects: their order, what readers miss, and what it costs."""

from collections import Counter
from itertools import pairwise

import pytest

from broker_node.storage import subject_changes
from broker_node.storage.subject import Subject
from broker_node.storage.subject_changes import QUIET_SECONDS, SubjectChanges
from tests.support.manual_clock import ManualClock


class _Log:
    end = 0


class Node:
    """Subjects, their changes, and a log."""

    def __init__(self) -> None:
        self.subjects: dict[str, Subject] = {}
        self.touched: dict[Subject, None] = {}
        self.log_begin = 0
        self.clock = ManualClock()
        self.changes = SubjectChanges(self.subjects, self.touched, lambda: self.log_begin, self.clock)

    def add(self, *names: str) -> None:
        for name in names:
            subject = self.subjects[name] = Subject(name, _Log(), self.touched)  # type: ignore[arg-type]
            subject.changed()

    def change(self, *names: str) -> None:
        for name in names:
            self.subjects[name].changed()

    def remove(self, name: str) -> None:
        self.subjects.pop(name).changed()

    def read(self, version: int, limit: int = 100) -> tuple[list[str], list[str], int, bool]:
        found = self.changes.since(version, limit)
        assert found is not None
        return [one.name for one in found.subjects], found.removed, found.version, found.has_more


def test_a_reader_gets_what_changed_since_its_version_and_nothing_else() -> None:
    node = Node()
    node.add("a", "b", "c")
    version = node.changes.current()
    assert node.read(version) == ([], [], version, False)
    node.change("b")
    node.change("b")
    names, removed, after, has_more = node.read(version)
    assert (names, removed, has_more) == (["b"], [], False)
    assert node.read(version)[0] == ["b"], "until the reader names a later version"
    node.change("c", "b")
    assert node.read(after)[0] == ["c", "b"]
    assert node.read(version)[0] == ["c", "b"]


def test_removed_subjects_are_reported_and_one_that_returned_is_not() -> None:
    node = Node()
    node.add("a", "b")
    version = node.changes.current()
    node.remove("a")
    names, removed, after, _ = node.read(version)
    assert (names, removed) == ([], ["a"])
    node.add("a")
    assert node.read(version)[:2] == (["a"], [])
    assert node.read(after)[:2] == (["a"], [])


def test_a_reader_slower_than_the_changes_reads_every_subject_in_turn() -> None:
    node = Node()
    names = [f"s{number}" for number in range(10)]
    node.add(*names)
    version, seen = node.changes.current(), []
    for _ in range(25):
        node.change(*names)
        found, _, version, has_more = node.read(version, limit=4)
        seen += found
        assert has_more
    assert min(Counter(seen).values()) >= 7, "of 10 each if all were equal"
    assert len(set(seen)) == 10


def test_an_answer_with_more_to_come_says_up_to_when_it_is_complete() -> None:
    node = Node()
    node.add("a", "b")
    version = node.changes.current()
    node.change("a")
    node.changes.advance()
    node.clock.advance(5)
    node.change("b")
    node.changes.advance()
    at_ms = node.clock.wall_ms()
    node.clock.advance(2)
    found = node.changes.since(version, 1)
    assert found is not None
    assert (found.has_more, found.complete_to_ms) == (True, at_ms)
    found = node.changes.since(version, 2)
    assert found is not None
    assert (found.has_more, found.complete_to_ms) == (False, node.clock.wall_ms())


def test_a_subject_that_is_quiet_is_read_again_while_its_rates_fall() -> None:
    node = Node()
    node.add("a", "b")
    node.changes.advance()
    node.clock.advance(QUIET_SECONDS[-1] + 1)
    for _ in QUIET_SECONDS:
        node.changes.advance()
    version = node.changes.current()
    node.change("a")
    node.changes.advance()
    read_at, began = [], node.clock.monotonic()
    _, _, version, _ = node.read(version)
    for _ in range(int(QUIET_SECONDS[-1]) + 100):
        node.clock.advance(1)
        names, _, version, _ = node.read(version)
        if names:
            assert names == ["a"]
            read_at.append(node.clock.monotonic() - began)
    assert read_at == list(QUIET_SECONDS)


def test_quiet_subjects_count_as_changed_a_limited_number_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject_changes, "QUIET_SUBJECTS_MAX", 2)
    node = Node()
    node.add("a", "b", "c")
    version = node.changes.current()
    node.clock.advance(QUIET_SECONDS[0])
    names, _, version, _ = node.read(version)
    assert names == ["a", "b"]
    assert node.read(version)[0] == ["c"]


@pytest.mark.parametrize("why", ["the log lost a segment", "everything may have changed", "a version of the future"])
def test_an_unknown_version_is_refused(why: str) -> None:
    node = Node()
    node.add("a")
    version = node.changes.current()
    if why == "the log lost a segment":
        node.log_begin = 100
    elif why == "everything may have changed":
        node.changes.reset()
    else:
        version += 1
    assert node.changes.since(version, 10) is None
    assert node.read(node.changes.current())[0] == []


def test_memory_is_bounded_by_the_subjects_and_a_number_of_removed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject_changes, "REMOVED_MAX", 5)
    monkeypatch.setattr(subject_changes, "COMPACT_ENTRIES", 5)
    node = Node()
    node.add("a", "b")
    first = version = node.changes.current()
    for number in range(200):
        node.add("gone")
        node.change("a")
        _, _, version, _ = node.read(version)
        node.remove("gone")
        removed = node.read(version)
        assert removed[1] == ["gone"], number
        version = removed[2]
        assert len(node.changes._entries) <= 2 * (3 + 5) + 5
    assert node.changes.since(first, 10) is None, "removed subjects that are no longer known"
    assert node.changes.since(version, 10) is not None


def test_outdated_versions_are_removed_a_limited_number_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject_changes, "COMPACT_ENTRIES", 10)
    node, names = Node(), [f"s{number}" for number in range(500)]
    node.add(*names)
    sizes = []
    for number in range(2_000):
        node.change(names[number % len(names)])
        node.changes.current()
        sizes.append(len(node.changes._entries))
    assert max(before - after for before, after in pairwise(sizes)) in range(1, 4 * 10 + 1)
    assert max(sizes) <= 2 * len(names)
    version = node.changes.current()
    node.change(*names)
    assert node.read(version, limit=1_000)[0] == names


def test_subjects_that_changed_are_sampled_once() -> None:
    node = Node()
    node.add("a", "b")
    node.changes.advance()
    assert [one.name for one in node.changes.take_unsampled()] == ["a", "b"]
    node.change("b")
    node.changes.current()
    node.changes.current()
    assert [one.name for one in node.changes.take_unsampled()] == ["b"]
    assert node.changes.take_unsampled() == []
