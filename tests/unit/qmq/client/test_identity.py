"""Default consumer ids: distinct while processes run, the same after a restart."""

import asyncio
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from qmq import Consumer
from qmq.client import identity
from qmq.client.identity import ConsumerSlot, claim_slot, default_client_id, lock_folders
from qmq.errors import SettingError
from tests.support.servers.processes import PROJECT

HOLDER = (
    "import sys\n"
    "from qmq.client.identity import claim_slot\n"
    "slot = claim_slot('', 'orders', 'billing')\n"
    "print(slot.consumer_id, flush=True)\n"
    "sys.stdin.read()\n"
)
"""Claims a slot, and holds it until it is killed or its input ends."""


def claim(*folders: Path, subject: str = "orders", group: str = "billing", slots_max: int = 8) -> ConsumerSlot:
    return claim_slot("", subject, group, folders=lambda: iter(folders), slots_max=slots_max)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "worker.py"
    path.write_text(HOLDER)
    return path


def start(script: Path) -> "tuple[subprocess.Popen[str], str]":
    """A process that holds a slot, and its consumer id."""
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=script.parent,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )  # fmt: skip
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_processes_of_one_script_get_distinct_ids_and_a_killed_one_gets_its_id_back(script: Path) -> None:
    started = [start(script) for _ in range(3)]
    ids = [consumer_id for _, consumer_id in started]
    try:
        assert len(set(ids)) == 3
        started[1][0].send_signal(signal.SIGKILL)
        started[1][0].wait()
        started.append(start(script))
        assert started[3][1] == ids[1]
    finally:
        for process, _ in started:
            process.kill()
            process.communicate()


def test_the_first_slot_keeps_the_digest_alone_and_released_slots_are_reused_lowest_first(tmp_path: Path) -> None:
    first, second, third = claim(tmp_path / "l"), claim(tmp_path / "l"), claim(tmp_path / "l")
    base = first.consumer_id
    assert base.startswith(f"{socket.gethostname()}@@")
    assert [slot.consumer_id for slot in (first, second, third)] == [base, f"{base}-1", f"{base}-2"]
    second.release()
    first.release()
    assert claim(tmp_path / "l").consumer_id == base
    fourth = claim(tmp_path / "l")
    assert fourth.consumer_id == base, "a slot whose object is gone is free"
    third.release()


def test_each_subject_and_group_has_slots_of_its_own(tmp_path: Path) -> None:
    held = [
        claim(tmp_path / "l", subject=subject, group=group)
        for subject, group in (("orders", "billing"), ("orders", "audit"), ("payments", "billing"), ("orders", ""))
    ]
    assert len({slot.consumer_id for slot in held}) == 1


def test_beyond_the_limit_ids_are_random_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    held = [claim(tmp_path / "l", slots_max=2) for _ in range(2)]
    with caplog.at_level(logging.WARNING):
        others = {claim(tmp_path / "l", slots_max=2).consumer_id for _ in range(2)}
    assert len(others | {slot.consumer_id for slot in held}) == 4
    assert "all 2 slots are held" in caplog.text
    assert "consumer_id" in caplog.text


def test_lock_folders_are_private_and_never_reached_through_links(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = tmp_path / "new" / "l"
    claim(good)
    assert good.stat().st_mode & 0o777 == 0o700
    base = claim(good, subject="other").consumer_id
    assert {path.stat().st_mode & 0o777 for path in good.iterdir()} == {0o600}
    link, open_to_all, file = tmp_path / "link", tmp_path / "open", tmp_path / "file"
    link.symlink_to(good)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    file.write_text("")
    for bad in (link, open_to_all, file, file / "below"):
        assert claim(bad, good).consumer_id == base, "the next folder is used"
        caplog.clear()
        assert claim(bad).consumer_id.startswith(f"{default_client_id('')}-"), "random"
        assert str(bad) in caplog.text
    assert not list(open_to_all.iterdir())
    # A link in the place of a lock file is not followed either.
    for name in [path.name for path in good.iterdir()]:
        trap = tmp_path / f"trap of {name}"
        trap.mkdir(mode=0o700)
        (trap / name).symlink_to(tmp_path / "victim")
        slots = [claim(trap), claim(trap, subject="other")]
        assert any(slot.consumer_id.startswith(f"{default_client_id('')}-") for slot in slots), "random"
        assert not (tmp_path / "victim").exists()


def test_the_folder_is_the_users_state_folder_then_one_for_temporary_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setenv("HOME", "/home/u")
    temporary = tmp_path / f"qmq-{os.geteuid()}"
    assert list(lock_folders()) == [Path("/state/qmq"), temporary]
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert list(lock_folders()) == [Path("/home/u/.local/state/qmq"), temporary]
    monkeypatch.setenv("HOME", "nowhere")
    assert list(lock_folders()) == [temporary]


def test_a_forked_child_does_not_share_a_slot_and_does_not_hold_it_after_its_parent(tmp_path: Path) -> None:
    slot = claim(tmp_path / "l")
    reading, writing = os.pipe()
    held_open, let_go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(let_go)
        os.write(writing, claim(tmp_path / "l").consumer_id.encode())
        os.close(writing)
        os.read(held_open, 1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        assert answers.read() == f"{slot.consumer_id}-1"
    # The child still runs; the parent's slot is free once the parent releases it.
    slot.release()
    assert claim(tmp_path / "l").consumer_id == slot.consumer_id
    os.close(let_go)
    os.close(held_open)
    os.waitpid(child, 0)


def test_a_blocking_consumer_made_before_a_fork_starts_in_both_processes_with_distinct_ids(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from qmq.sync import Consumer\n"
        "consumer = Consumer('127.0.0.1:1', 'orders', 'forked')\n"
        "child = os.fork()\n"
        "consumer.start()\n"
        "os.write(1, consumer._inner.consumer_id.encode() + b'\\n')\n"
        "if child: os.waitpid(child, 0)\n"
        "else: sys.stdin.read()\n"
        "os._exit(0)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ids = {process.stdout.readline() for _ in range(2)}
        process.stdin.close()
        assert len(ids) == 2
        assert "" not in ids


def test_without_file_locks_ids_are_random(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(identity, "fcntl", None)
    assert claim(tmp_path / "l").consumer_id != claim(tmp_path / "l").consumer_id
    assert "flock" in caplog.text


def test_the_client_can_be_imported_without_fcntl() -> None:
    code = "import sys; sys.modules['fcntl'] = None; import qmq.client.app, qmq.sync, qmq.cli; print('fine')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "fine", done.stderr


async def test_consumers_of_one_process_claim_at_start_and_release_when_closed() -> None:
    first, second = (Consumer("127.0.0.1:1", "orders", "billing") for _ in range(2))
    broadcast = Consumer("127.0.0.1:1", "orders", broadcast=True)
    named = Consumer("127.0.0.1:1", "orders", "billing", consumer_id="mine")
    assert (first.consumer_id, named.consumer_id) == ("", "mine")
    async with second:
        async with first, broadcast, named:
            base = min(first.consumer_id, second.consumer_id)
            assert {first.consumer_id, second.consumer_id} == {base, f"{base}-1"}
            assert broadcast.group == broadcast.consumer_id == base
            assert named.consumer_id == "mine"
        async with Consumer("127.0.0.1:1", "orders", "billing") as third:
            assert third.consumer_id == first.consumer_id
    with pytest.raises(SettingError):
        Consumer("ftp://x", "orders", "billing")


async def test_a_consumer_closed_while_it_starts_holds_no_slot() -> None:
    consumer = Consumer("127.0.0.1:1", "orders", "billing")
    starting = asyncio.create_task(consumer.start())
    await asyncio.sleep(0)
    await consumer.close()
    await starting
    assert not consumer.supervisor.status()
    async with Consumer("127.0.0.1:1", "orders", "billing") as other:
        assert not other.consumer_id.endswith("-1")


@pytest.fixture
def outside_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_mounts", lambda: "")


def test_processes_of_one_host_name_and_program_without_common_files_have_distinct_ids(
    tmp_path: Path, outside_containers: None
) -> None:
    """Containers with one host name: each has a file system of its own. A restart in the same one keeps the ID."""
    held = [claim(tmp_path / f"container {number}" / "l") for number in range(50)]
    assert len({slot.consumer_id for slot in held}) == 50
    for number, slot in enumerate(held):
        slot.release()
        assert claim(tmp_path / f"container {number}" / "l").consumer_id == slot.consumer_id


def test_a_place_that_was_not_written_whole_is_written_again(tmp_path: Path, outside_containers: None) -> None:
    folder = tmp_path / "l"
    claim(folder)
    (folder / identity.PLACE_FILE).write_text("0123")
    again = claim(folder, subject="other").consumer_id
    assert len((folder / identity.PLACE_FILE).read_text()) == 32
    assert claim(folder).consumer_id == again


MOUNTS = """\
629 512 0:52 / / rw,relatime master:200 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/XYZ
640 629 254:1 {} /etc/hostname rw,relatime - ext4 /dev/vda1 rw
641 629 254:1 /var/lib/docker/containers/5a/hosts /etc/hosts rw,relatime - ext4 /dev/vda1 rw
"""


def test_a_container_keeps_its_ids_although_its_files_are_new_and_others_have_other_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted container of Kubernetes has an empty file system, and the same file of its pod at /etc/hostname."""

    def started_in(pod: str) -> str:
        shutil.rmtree(tmp_path / "l", ignore_errors=True)
        monkeypatch.setattr(identity, "_mounts", lambda: MOUNTS.format(f"/sandboxes/{pod}/hostname"))
        return claim(tmp_path / "l").consumer_id

    assert started_in("a") == started_in("a")
    assert started_in("a") != started_in("b")
    assert identity.container_of(MOUNTS.format("/sandboxes/a/hostname")) == "/sandboxes/a/hostname"
    assert identity.container_of("24 1 254:1 / / rw - ext4 /dev/vda1 rw\nnot a mount") == ""


def test_two_users_of_a_container_have_distinct_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_mounts", lambda: MOUNTS.format("/sandboxes/a/hostname"))
    assert claim(tmp_path / "ada").consumer_id != claim(tmp_path / "grace").consumer_id
