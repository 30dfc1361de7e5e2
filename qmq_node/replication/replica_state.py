"""class ReplicaStateFile: what a member of a broker group must not forget, durable before it is acted on."""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from qmq.errors import SettingError
from qmq_node.log.atomic_file import CheckedFile
from qmq_node.log.checkpoint import as_number, as_text
from qmq_node.log.copied_log import CopiedLog
from qmq_node.log.disk import Disk
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import FIRST_EPOCH
from qmq_node.replication.rules.roles import OLDER_FOLDER, Copying, CopyPhase, ReplicaState

FILE_NAME = "replica"
FILE_BYTES_MAX = 4 << 10
"""Largest file that is read; a state has about 300 bytes, with the longest names 700."""
PROMOTION_ID_CHARS_MAX = 200


def encode_state(state: ReplicaState) -> bytes:
    """Return the content of the file."""
    fields = asdict(state)
    if state.copying is not None:
        fields["copying"]["phase"] = state.copying.phase.value
    return json.dumps(fields).encode()


def decode_state(data: bytes) -> ReplicaState:
    """Return the state of a file. Raises ValueError, LookupError, TypeError."""
    fields = json.loads(data)
    copying = fields["copying"]
    return ReplicaState(
        as_number(fields["epoch"], FIRST_EPOCH),
        as_text(fields["promotion_id"]),
        _as_bool(fields, "is_only_member"),
        None if copying is None else _decode_copying(copying),
        _as_bool(fields, "is_new"),
        as_number(fields["version"]),
        _as_names(fields["in_sync"]),
        as_text(fields["log_id"]),
        # Files from before an operator's loss was noticed there have neither.
        as_text(fields.get("loss_id", "")),
        as_text(fields.get("groups_loss_id", "")),
        as_number(fields.get("older_end", -1), -1),
    )


def _with_loss(state: ReplicaState, loss_id: str) -> ReplicaState:
    """Return a state in which groups may be missing since a loss, also if groups were created after one with the same name."""
    return replace(
        state, loss_id=loss_id, groups_loss_id="" if state.groups_loss_id == loss_id else state.groups_loss_id
    )


def _decode_copying(fields: dict[str, Any]) -> Copying:
    return Copying(
        as_number(fields["begin"]),
        as_number(fields["end"]),
        CopyPhase(fields["phase"]),
        as_number(fields["state_offset"]),
        as_number(fields["state_epoch"]),
    )


def _as_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"node ids are {value!r}")
    return tuple(map(as_text, value))


def _as_bool(fields: dict[str, Any], name: str) -> bool:
    value = fields[name]
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}")
    return value


@dataclass(eq=False, repr=False)
class ReplicaStateFile:
    """The state of one node, in a file of its data folder.

    `state` is what the disk holds: it changes when a new state and the file's name are synced, so that what acts on it acts on
    nothing that a power cut may take back. A crash leaves the state before or the one after, whole.
    """

    _disk: Disk
    _folder: str
    state: ReplicaState = field(default_factory=ReplicaState, init=False)
    is_stored: bool = field(default=False, init=False)
    """Whether there is a file."""
    on_first: Callable[[], None] | None = field(default=None, init=False)
    """Called when the file was stored for the first time, before anything acts on it: its loss must be noticed from then on."""
    _newest: ReplicaState = field(default_factory=ReplicaState, init=False)
    """The last state that was written. After an error it may be on the disk, or not."""
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._file = CheckedFile(self._disk, self._folder, FILE_NAME, FILE_BYTES_MAX)

    def load(self, *, is_expected: bool = False) -> ReplicaState:
        """Read the file, and return its state; without a file, the default. From a thread that may wait for the disk.

        Args:
            is_expected: whether there was a file. A member without it would serve as the only one, and others may have more.

        Raises SettingError if the file can't be read, or is missing.
        """
        try:
            data = self._file.load()
            if data is not None:
                self.state = self._newest = decode_state(data)
                self.is_stored = True
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise SettingError(
                f"{self._file.path} can't be read: {error}. Without it this node may not use its log: restore the file, or move"
                " the data folder away, so that the node copies the log of its broker group"
            ) from error
        if is_expected and not self.is_stored:
            raise SettingError(
                f"{self._file.path} is missing. Without it this node may not use its log: restore the newest file, or move the data"
                " folder away, so that the node copies the log of its broker group"
            )
        return self.state

    def check_log(self, log_epoch: int) -> None:
        """Compare the state with the epoch of the newest commit of the log; 0 for an empty log.

        Raises SettingError if the log has a later epoch. An epoch is on disk here before the first commit has it, so the file is
        lost, or was put back from an older copy.
        """
        if log_epoch > self.state.epoch:
            holds = f"has epoch {self.state.epoch}" if self.is_stored else "is missing"
            raise SettingError(
                f"{self._file.path} {holds}, but the log has commits of epoch {log_epoch}: restore the newest file, or move the"
                " data folder away, so that the node copies the log of its broker group"
            )

    def save(self, state: ReplicaState) -> None:
        """Replace the state, durably; from any thread that may wait for the disk.

        Raises:
            ValueError: the epoch is lower, or equal with another promotion, or the promotion ID is too long. Nothing was changed.
            OSError: the disk refused; `state` is as it was, and the next start finds the old state or the new one. So the epoch of
                the new one can't be undone either.
        """
        with self._lock:
            self._save(state)

    def save_role(self, state: ReplicaState) -> None:
        """As `save`, but what is being copied, and the log's ID, stay as they are on disk: both change while a slave follows. A
        later membership of the same epoch stays, too: memberships arrive from metaservers and as answers at the same time. That
        consumer groups may be missing stays until `groups_created`."""
        with self._lock:
            there = self.state
            state = replace(
                state,
                copying=there.copying,
                log_id=there.log_id,
                groups_loss_id=there.groups_loss_id,
                older_end=there.older_end,
            ).with_newest_membership(there)
            if there.lacks_groups and not state.lacks_groups:
                state = replace(state, loss_id=there.loss_id)
            self._save(state)

    def note_loss(self, loss_id: str) -> None:
        """Record durably that consumer groups may be missing since a loss. Raises OSError as `save`."""
        with self._lock:
            if loss_id != self.state.loss_id:
                self._save(_with_loss(self.state, loss_id))

    def groups_created(self, loss_id: str) -> None:
        """Record durably that the consumer groups that were known exist since a loss. Raises OSError as `save`."""
        with self._lock:
            self._save(replace(self.state, groups_loss_id=loss_id))

    def note_older(self, log_end: int) -> None:
        """Record durably where the log ended when a metaserver said that the data folder is an older one, so that consumer groups
        may be missing; -1: the loss was accepted. Raises OSError as `save`."""
        with self._lock:
            state = self.state
            if log_end == state.older_end:
                return
            if log_end >= 0 and not state.lacks_groups:
                state = _with_loss(state, OLDER_FOLDER)
            self._save(replace(state, older_end=log_end))

    def set_log_id(self, log_id: str) -> None:
        """Record durably which log this is, before anything of it is written. Raises OSError as `save`."""
        with self._lock:
            if log_id != self.state.log_id:
                self._save(replace(self.state, log_id=log_id))

    def set_copying(self, copying: Copying | None) -> None:
        """Record durably what is being copied; None: nothing, so the node may confirm. Raises OSError as `save`."""
        with self._lock:
            self._save(replace(self.state, copying=copying))

    def end_copying(self, log: SegmentedLog) -> None:
        """Record durably that the copy is complete: from now on the node may confirm.

        Raises as `save`, and ValueError if commits of the log are not synced.
        """
        if log.synced_end < log.gather.records_end:
            raise ValueError(
                f"the copy ends at {log.gather.records_end} and is synced to {log.synced_end}: sync it first"
            )
        self.set_copying(None)

    def _save(self, state: ReplicaState) -> None:
        known = self._newest
        if state.epoch < known.epoch:
            raise ValueError(f"the epoch on disk is {known.epoch} and can't fall to {state.epoch}")
        if state.epoch == known.epoch and known.promotion_id not in ("", state.promotion_id):
            raise ValueError(
                f"epoch {state.epoch} began with promotion {known.promotion_id!r}, and not with {state.promotion_id!r}: two nodes"
                " were promoted with one epoch"
            )
        if len(state.promotion_id) > PROMOTION_ID_CHARS_MAX:
            raise ValueError(
                f"a promotion ID of {len(state.promotion_id)} characters, the limit is {PROMOTION_ID_CHARS_MAX}"
            )
        self._newest = state
        self._file.save(encode_state(state))
        if not self.is_stored and self.on_first is not None:
            self.on_first()
        self.state, self.is_stored = state, True

    def copied_log(self, log: SegmentedLog) -> CopiedLog:
        """Return what writes the master's commits to the log, as the state on disk allows."""
        return CopiedLog(log, epoch=self.state.epoch, is_copying=self.state.copying is not None)

    def begin_epoch(self, log: SegmentedLog, *, keeps_records: bool = False) -> None:
        """Have further commits of the log written in the epoch that is on disk, as `SegmentedLog.begin_epoch`."""
        log.begin_epoch(self.state.epoch, keeps_records=keeps_records)
