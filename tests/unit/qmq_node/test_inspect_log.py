"""`qmq log inspect` on logs with several epochs, and on a damaged one."""

import json
from pathlib import Path

import pytest

from qmq.cli import main
from qmq.errors import LogError
from qmq_node.log.disk import SystemDisk
from qmq_node.log.record import EPOCH_KIND, decode_epoch, encode_epoch
from tests.support.drivers.logs import open_log


def write_log(folder: Path, epochs: tuple[int, ...]) -> list[int]:
    """A log with a commit of one record for each epoch; where the commits end."""
    log = open_log(SystemDisk(), str(folder), segment_bytes=1 << 20)
    ends = []
    for epoch in epochs:
        if epoch != log.epoch:
            log.begin_epoch(epoch)
        if epoch > 1:
            log.gather.append(EPOCH_KIND, encode_epoch(epoch, f"promotion {epoch}"))
        log.gather.append(1, b"a message")
        commit = log.gather.take()
        assert commit is not None
        log.writer.write(commit)
        log.complete(commit)
        ends.append(commit.end)
    log.close()
    return ends


def test_epochs_are_shown_with_the_offsets_where_they_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third, end = write_log(tmp_path / "log", (1, 1, 4, 6))
    assert main(["log", "inspect", str(tmp_path / "log"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["epochs"] == [
        {"epoch": 1, "begin": 0, "promotion_id": ""},
        {"epoch": 4, "begin": second, "promotion_id": "promotion 4"},
        {"epoch": 6, "begin": third, "promotion_id": "promotion 6"},
    ]
    assert (shown["commits"], shown["end"], shown["damaged"], shown["records_by_kind"]) == (
        4,
        end,
        [],
        {"1": 4, "255": 2},
    )
    assert first < second
    assert main(["log", "inspect", str(tmp_path / "log")]) == 0
    assert f"epochs: 1 from 0 on, 4 from {second} on, 6 from {third} on" in capsys.readouterr().out


def test_a_corrupted_commit_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, *_ = write_log(tmp_path / "log", (1, 1, 1))
    (segment,) = (tmp_path / "log").glob("0*0")
    data = bytearray(segment.read_bytes())
    data[first + 70] ^= 1
    segment.write_bytes(data)
    assert main(["log", "inspect", str(tmp_path / "log")]) == 1
    assert f"CORRUPTED from {first} to {second}: commits can't be read" in capsys.readouterr().out


def test_a_folder_without_a_log_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "inspect", str(tmp_path)]) == 2
    assert "contains no segments" in capsys.readouterr().err


@pytest.mark.parametrize("payload", [b"", b"1234567", bytes(8) + b"\xff"])
def test_a_record_that_begins_an_epoch_and_can_not_be_read_is_an_error(payload: bytes) -> None:
    assert decode_epoch(encode_epoch(7, "id")) == (7, "id")
    with pytest.raises(LogError, match="the record that begins an epoch can't be read"):
        decode_epoch(payload)
