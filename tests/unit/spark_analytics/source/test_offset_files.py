"""Offsets of streams with very many ranges: what Spark keeps of them, and what becomes of their files."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from spark_analytics.source import offset_files
from spark_analytics.source.offset_files import FILES_MARGIN, Offsets
from spark_analytics.source.offsets import Offset, Place, StreamError, complete_ms

MANY = Offset(
    {
        ("g1", "stock", ""): Place(0, 10),
        ("g1", "orders", "billing"): Place(2, 9, 2, 77, 1, 1 << 40, 5),
        ("g2", "Überweisung", ""): Place(1 << 48, (1 << 48) + 3),
    },
    {"g1": 5, "g2": 6},
    {"g1": 0, "g2": 1},
)


def further(offset: Offset, count: int) -> Offset:
    return Offset({key: place.further(count) for key, place in offset.ranges.items()}, offset.complete_ms, offset.logs)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint" / "ranges"


def offsets_of(folder: Path, **options: int) -> Offsets:
    """Offsets as a process sees them that has just begun, with files above two ranges."""
    return Offsets(str(folder), **{"inline_max": 2, **options})


def sent(found: dict[str, Any]) -> dict[str, Any]:
    """An offset as it comes back from Spark."""
    again: dict[str, Any] = json.loads(json.dumps(found))
    return again


@pytest.mark.parametrize("is_uri", [False, True])
def test_an_offset_of_many_ranges_names_a_file_that_another_process_reads(folder: Path, is_uri: bool) -> None:
    place = folder.as_uri() if is_uri else str(folder)
    kept = sent(Offsets(place, inline_max=2).to_json(MANY, {}))
    assert set(kept) == {"ranges_file", "complete_ms", "logs"}
    assert complete_ms(json.dumps(kept)) == {"g1": 5, "g2": 6}
    found = offsets_of(folder).of_json(kept)
    assert (found.ranges, found.complete_ms, found.logs) == (MANY.ranges, MANY.complete_ms, {"g2": 1})
    assert list(found.ranges) == list(MANY.ranges)
    assert os.listdir(folder) == [kept["ranges_file"]]


def test_few_ranges_and_those_of_a_stream_without_a_folder_stay_in_the_offset(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offsets_of(folder, inline_max=3).to_json(MANY, {}) == MANY.to_json()
    without = Offsets("", inline_max=2)
    assert without.of_json(sent(without.to_json(MANY, {}))).ranges == MANY.ranges
    assert not folder.exists()
    monkeypatch.setattr(offset_files, "RANGES_WITHOUT_FOLDER_MAX", 2)
    with pytest.raises(StreamError, match=r"^3 ranges; a stream without option offsets can have 2\. Set the option"):
        without.to_json(MANY, {})


def test_a_stream_goes_over_to_files_and_back(folder: Path) -> None:
    few = Offset({("g1", "a", ""): Place(0, 1)})
    offsets, at = offsets_of(folder), few.to_json()
    for offset in (MANY, further(MANY, 1), few, MANY):
        at = sent(offsets.to_json(offset, at))
        assert offsets_of(folder).of_json(at).ranges == offset.ranges
    assert sorted(name.partition("-")[0] for name in os.listdir(folder)) == ["1", "2"]


def test_the_last_offsets_are_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = offsets_of(folder)
    first = sent(offsets.to_json(MANY, {}))
    second = sent(offsets.to_json(further(MANY, 1), first))
    monkeypatch.setattr(offset_files, "_decode", lambda content: pytest.fail("read again"))
    assert offsets.of_json(first) is MANY
    assert offsets.of_json(second).ranges == further(MANY, 1).ranges


def test_a_file_is_on_the_disk_before_its_offset_is_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut after Spark has the offset leaves the file, with its name and those of the folders that are new."""
    steps: list[str] = []
    sync = os.fsync

    def record(fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        names = [name for name in os.listdir(folder) if name[0] != "."]
        steps.append(f"{'whole file' if path.parent == folder else path.name}, {len(names)} named")
        sync(fd)

    monkeypatch.setattr(os, "fsync", record)
    offsets = offsets_of(folder)
    at = offsets.to_json(MANY, {})
    assert steps == [
        "whole file, 0 named",
        "ranges, 1 named",
        "checkpoint, 1 named",
        f"{folder.parent.parent.name}, 1 named",
    ]
    steps.clear()
    offsets.to_json(further(MANY, 1), at)
    assert steps == ["whole file, 1 named", "ranges, 2 named"]


def test_a_file_that_is_missing_or_was_changed_is_named_with_what_to_do(folder: Path) -> None:
    kept = offsets_of(folder).to_json(MANY, {})
    path = folder / kept["ranges_file"]
    content = path.read_bytes()
    for changed in (content[:-1], b"", content[:50] + b"x" + content[51:]):
        path.write_bytes(changed)
        with pytest.raises(
            StreamError, match=rf"{path.name}, which has .* was changed .*: restore it, or start"
        ) as caught:
            offsets_of(folder).of_json(kept)
        assert caught.value.code == "analytics.offset_changed"
    path.unlink()
    with pytest.raises(
        StreamError, match=rf"{path.name}, which .* names, is missing: restore it, set option"
    ) as caught:
        offsets_of(folder).of_json(kept)
    assert caught.value.code == "analytics.offset_missing"
    with pytest.raises(StreamError, match="set option offsets to the folder that the stream had before"):
        Offsets("").of_json(kept)
    with pytest.raises(StreamError, match=r"not written by data source qmq: its file is named '\.\./x'"):
        offsets_of(folder).of_json({"ranges_file": "../x"})
    with pytest.raises(StreamError, match=r"not written by data source qmq: its file is named '7'"):
        offsets_of(folder).of_json({"ranges_file": 7})


def test_a_folder_that_can_not_be_written_is_an_error(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("a file")
    with pytest.raises(OSError, match="ranges"):
        offsets_of(folder).to_json(MANY, {})


def test_files_of_offsets_that_spark_no_longer_keeps_are_deleted_and_no_other(folder: Path) -> None:
    """Whatever ends a process between a file and its offset, and however often."""
    at, kept = Offset().to_json(), list[dict[str, Any]]()
    for batch in range(40):
        for attempt in range(1 + batch % 3):
            # Spark does not get to know of what a killed process planned; later the nodes have more.
            planned = offsets_of(folder, kept=3).to_json(further(MANY, 10 * batch + attempt), at)
            (folder / f".{planned['ranges_file']}.killed").touch()
            for one in kept[-3:]:
                assert (folder / one["ranges_file"]).exists()
        at = sent(planned)
        kept.append(at)
    numbers = {int(name.lstrip(".").partition("-")[0]) for name in os.listdir(folder)}
    assert numbers == set(range(40 - 3 - FILES_MARGIN, 41))


def test_files_of_others_stay(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "0-notes.txt").touch()
    (folder / "metadata").touch()
    at: dict[str, Any] = {}
    for batch in range(20):
        at = offsets_of(folder, kept=1).to_json(further(MANY, batch), at)
    assert {"0-notes.txt", "metadata"} <= set(os.listdir(folder))
