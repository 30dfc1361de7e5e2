"""class DelayStateFiles: the files of hours as a part of a delay node's state. A master serves them, and a slave copies them."""

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import closing

from delay_node.checkpoint import CHECKPOINT_NAME, DelayState, decode_state
from delay_node.files_copy import FilesCopy
from delay_node.hour import Hours
from delay_node.whole_files import Whole, WholeBytes, WholeFiles, parts_of
from qmq.errors import LogError
from qmq_node.log.checkpoint import Checkpoint, CheckpointFile, CheckpointStore, decode_checkpoint
from qmq_node.log.disk import Disk, File
from qmq_node.log.handles import HandleCache
from qmq_node.replication.state_files import StateFile, WantedBytes

PAGE_BYTES = 4096
"""A read that fails is tried again in pieces of this size, so that a slave lacks no more than the disk lost."""

logger = logging.getLogger("qmq.delay.copying")


class DelayStateFiles:
    """As `qmq_node.replication.state_files.StateFiles`.

    Args:
        hours: returns the hours of the open store.
    """

    def __init__(self, disk: Disk, root: str, hours: Callable[[], Hours]) -> None:
        self._disk = disk
        self._root = root
        self._hours = hours
        self._whole = WholeFiles(disk, root)
        self._checkpoints = CheckpointStore(disk, f"{root}/checkpoint", CHECKPOINT_NAME)

    # --- of a master -----------------------------------------------------------------------------------------------

    def counted(self, checkpoint: CheckpointFile) -> Mapping[str, StateFile]:
        found = decode_checkpoint(checkpoint.read(0, checkpoint.size))
        if not isinstance(found, Checkpoint):
            raise LogError(found)
        files: dict[str, StateFile] = {}
        for row in sorted(decode_state(found).hours):
            for part in parts_of(row):
                path = f"{self._root}/{part.name}"
                files[part.name] = StateFile(path, part.bytes, row.hour, row.begins_at, len(files))
        return files

    def is_current(self, file: StateFile) -> bool:
        hour = self._hours().get(file.owner)
        return hour is not None and hour.begins_at == file.since

    def read(self, file: StateFile, begin: int, size: int) -> bytes:
        try:
            opened = self._disk.open(file.path, writable=False)
        except OSError as error:
            logger.error("a slave gets zeros in place of %d bytes: %s", size, error)
            return bytes(size)
        with closing(opened):
            try:
                data = opened.pread(size, begin)
            except OSError as error:
                logger.error("a slave gets zeros in place of what can't be read: %s: %s", file.path, error)
                self._hours().handles.on_unreadable(file.path, begin, begin + size)
                data = _readable(opened, begin, size)
        return data.ljust(size, b"\0")

    # --- of a slave ------------------------------------------------------------------------------------------------

    def keep(self, log_end: int) -> None:
        if self._whole.load() is not None or not log_end:
            # Of a copy that is not complete, or of one of whose state nothing is known.
            return
        checkpoint = self._checkpoints.load()
        if checkpoint is not None:
            state = decode_state(checkpoint)
            counted = _counted(state)
            self._whole.save(Whole(checkpoint.log_position.offset, state.memory.epochs, log_end, counted))

    def discard(self) -> None:
        self._whole.save(Whole())

    def copy(self) -> Generator[WantedBytes, bytes, int]:
        checkpoint = self._checkpoints.load()
        if checkpoint is None:
            raise LogError("the checkpoint that was copied can't be read")
        state = decode_state(checkpoint)
        known = self._whole.load() or Whole()
        whole = known.of_state(checkpoint.log_position.offset, state.memory.epochs, _counted(state))
        copy = FilesCopy(self._root, HandleCache(self._disk), self._whole, whole, sorted(state.hours))
        yield from copy.steps()
        return copy.damaged


def _counted(state: DelayState) -> dict[int, WholeBytes]:
    return {row.hour: WholeBytes.counted(row) for row in state.hours}


def _readable(file: File, begin: int, size: int) -> bytes:
    """Return bytes of a file page by page, zeros for pages that can't be read."""
    pieces: list[bytes] = []
    at = begin
    while at < begin + size:
        stop = min(begin + size, (at // PAGE_BYTES + 1) * PAGE_BYTES)
        try:
            piece = file.pread(stop - at, at)
        except OSError:
            piece = b""
        pieces.append(piece.ljust(stop - at, b"\0"))
        at = stop
    return b"".join(pieces)
