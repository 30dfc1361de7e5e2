"""class SubjectTable: the subjects of a broker and their groups, by name, and which of them were removed."""

from dataclasses import dataclass, field
from hashlib import blake2b

from broker_node.storage.actions import DropSubject
from broker_node.storage.consume_log import ENTRY_BYTES
from broker_node.storage.progress import GroupProgress
from broker_node.storage.progress_log import PROGRESS_ENTRY_BYTES
from broker_node.storage.subject import Group, Subject
from qmq.clock import Clock
from qmq.errors import QmqError
from qmq.protocol.names import check_new_group, check_new_subject, retry_subject, split_subject
from qmq_node.log.disk import Disk
from qmq_node.log.handles import HandleCache
from qmq_node.log.index import DenseIndex
from qmq_node.log.tails_file import TailsFile
from qmq_node.process.counters import counted
from qmq_node.sorted_names import SortedNames


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Maximum numbers of what one node holds. At a limit, only what is new is refused."""

    subjects_max: int = 200_000
    """Of real subjects; as many retry and dead-letter subjects fit beside them. Official consumers send a failed message back
    until it is taken, so a retry subject is not refused because of how many real subjects there are."""
    groups_per_subject_max: int = 10_000
    consumers_per_group_max: int = 10_000
    consumer_in_flight_max: int = 100_000


class LimitReached(QmqError):
    """A named limit of the node; the message says which and its value."""

    code = "broker.limit_reached"
    retriable = False


class StorePaths:
    """Folders of a broker's data."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.log, self.checkpoint = f"{root}/log", f"{root}/checkpoint"
        self.consume, self.progress = f"{root}/consume", f"{root}/progress"


@dataclass(slots=True)
class StoreCounters:
    """Counts since start, for metrics."""

    message_bytes: int = counted("stored_message_bytes", "Bytes of messages made visible")
    withheld_messages: int = counted("withheld_messages", "Stored messages that fail their checks")
    repaired_entries: int = counted("repaired_index_entries", "Index entries rebuilt from the log")
    wrong_index_entries: int = counted(
        "wrong_index_entries", "Records whose index entries, as the master sent them, were wrong and not used"
    )
    flush_errors: int = counted("flush_errors", "Failed index writes, which are retried")
    expired_messages: int = counted("expired_messages", "Messages deleted by the retention of their subject")
    expired_history_entries: int = counted(
        "expired_history_entries", "Expired history entries of consumer groups that were deleted"
    )
    removed_subjects: int = counted("removed_subjects", "Removed empty subjects")


@dataclass(slots=True)
class SubjectTable:
    """Subjects and groups in memory, and their indexes. `MessageStore` fills it from the log."""

    disk: Disk
    paths: StorePaths
    clock: Clock
    limits: StoreLimits
    handles: HandleCache
    subjects: dict[str, Subject] = field(default_factory=dict)
    counters: StoreCounters = field(default_factory=StoreCounters)
    retry_subjects: dict[tuple[str, str], Subject] = field(default_factory=dict)
    """By real subject and group."""
    real_subjects: int = 0
    """How many of `subjects` are real ones: no retry and no dead-letter subjects."""
    touched: dict[Subject, None] = field(default_factory=dict)
    """Subjects that changed since `SubjectChanges` last recorded them."""
    forgotten: dict[tuple[str, str], DenseIndex] = field(default_factory=dict)
    """(subject, group) -> history of groups removed since the last checkpoint."""
    sequence_floor: int = 0
    """New subjects begin here: no removed subject ended above it, so no sequence of a name is used twice."""
    subject_names: SortedNames = field(default_factory=SortedNames)
    """Those of `subjects`, for pages."""
    maybe_empty: dict[str, None] = field(default_factory=dict)
    """Subjects to check for removal: they lost their last group, or their own retention took their last message."""
    removed: dict[str, DenseIndex] = field(default_factory=dict)
    """Consume logs of removed subjects, by name, until a checkpoint without them is saved."""
    tails: TailsFile = field(init=False)
    """Has the entries that are in memory only, as of the last checkpoint."""
    leftovers: dict[str, int] = field(default_factory=dict)
    """Folders with files that the newest checkpoint does not count on, until the next one is saved: files that begin below a
    sequence."""

    def __post_init__(self) -> None:
        self.tails = TailsFile(self.disk, self.paths.checkpoint)

    def subject(self, name: str) -> Subject:
        """The subject, made when new.

        Raises:
            IllegalName: no subject may be created with this name.
            LimitReached: the node holds `subjects_max` subjects of this kind.
        """
        subject = self.subjects.get(name)
        if subject is None:
            self._check_new(name)
            is_real, most = split_subject(name).kind == "real", self.limits.subjects_max
            held = self.real_subjects if is_real else len(self.subjects) - self.real_subjects
            if held >= most:
                what = "subjects" if is_real else "retry and dead-letter subjects"
                raise LimitReached(f"this node holds {held} {what}, its limit is {most} (subjects_max)")
            subject = self.stored_subject(name)
        return subject

    def _check_new(self, name: str) -> None:
        """Raises IllegalName. Retry and dead-letter subjects of a stored subject or group are created whatever its name."""
        parts = split_subject(name)
        real = self.subjects.get(parts.subject)
        if parts.kind == "real" or not parts.group:
            check_new_subject(name)
            return
        if real is None:
            check_new_subject(parts.subject)
        if real is None or parts.group not in real.groups:
            check_new_group(parts.group)

    def stored_subject(self, name: str) -> Subject:
        """The subject, made when new; for what is in the log already, so no limit applies."""
        subject = self.subjects.get(name)
        if subject is None:
            # Files of an earlier subject of the name begin below the floor. A process that died may have left others, of a
            # subject that no checkpoint knows: their entries are replayed.
            subject = self.add_subject(name, self.open_index(name, self.sequence_floor), self.sequence_floor)
            subject.changed()
        return subject

    def add_subject(self, name: str, index: DenseIndex, origin: int) -> Subject:
        """A subject over the file part of its consume log; the caller has checked that it is new."""
        subject = self.subjects[name] = Subject(name, index, self.touched, origin)
        self.subject_names.add(name)
        parts = split_subject(name)
        self.real_subjects += parts.kind == "real"
        if name == retry_subject(parts.subject, parts.group):
            self.retry_subjects[parts.subject, parts.group] = subject
        return subject

    def open_index(self, subject: str, begin: int | None = None) -> DenseIndex:
        """The file part of a subject's consume log; `begin` as `DenseIndex` takes it."""
        return self._open(self.paths.consume, subject, ENTRY_BYTES, begin)

    def apply_drop(self, action: DropSubject, offset: int) -> None:
        """Remove a subject by a record of the log; used live and in recovery."""
        self.sequence_floor = max(self.sequence_floor, action.sequence_floor)
        subject = self.subjects.get(action.subject)
        if subject is None or subject.visible_end > action.end:
            return
        if any(group.progress.applied_at > offset for group in subject.groups.values()):
            # The checkpoint holds the subject as it returned, later in the log.
            return
        self.remove_subject(subject)

    def remove_subject(self, subject: Subject) -> None:
        """Remove a subject from memory; its files stay until no checkpoint counts on them."""
        name, index = subject.name, subject.consume_log
        for group in list(subject.groups.values()):
            # Only in recovery: the record that removed the group is lost to damage.
            self._remove_group(subject, group)
        del self.subjects[name]
        self.subject_names.remove(name)
        parts = split_subject(name)
        self.real_subjects -= parts.kind == "real"
        if self.retry_subjects.get((parts.subject, parts.group)) is subject:
            del self.retry_subjects[parts.subject, parts.group]
        subject.changed()
        self.counters.removed_subjects += 1
        self.maybe_empty.pop(name, None)
        index.hide_before(index.end)
        if name in self.removed:
            # Only in recovery: the name was removed twice since the checkpoint, which counts on the first one's files only.
            index.start_at(index.end)
        else:
            # A checkpoint that counts on its files may be the newest now.
            self.removed[name] = index

    def open_history(self, subject: str, group: str, begin: int | None = None) -> DenseIndex:
        """The file part of a group's progress log; `begin` as `DenseIndex` takes it."""
        return self._open(self.paths.progress, f"{subject}\n{group}", PROGRESS_ENTRY_BYTES, begin)

    def _open(self, parent: str, name: str, entry_bytes: int, begin: int | None) -> DenseIndex:
        # Names may hold any character but '/', and be longer than a file name: the digest is always legal.
        digest = blake2b(name.encode(), digest_size=16).hexdigest()
        folder = f"{parent}/{digest[:2]}/{digest[2:]}"
        if folder in self.leftovers:
            # Files from `begin` on are deleted by the new index, which may write one of the same name.
            self.leftovers[folder] = min(self.leftovers[folder], begin or 0)
        return DenseIndex(self.handles, folder, entry_bytes, begin=begin)

    def leave_files(self, index: DenseIndex) -> None:
        """A checkpoint without this index was saved: its files are deleted with the next one."""
        self.leftovers[index.folder] = max(self.leftovers.get(index.folder, 0), index.end)

    def new_group(self, subject: Subject, name: str, next_sequence: int, broadcast: bool) -> Group:
        """A group in memory; the action that makes it durable is the caller's, and so is the limit."""
        progress = GroupProgress(subject.name, name, next_sequence, broadcast)
        # A group that was removed since the last checkpoint continues its history: that checkpoint counts on the files.
        history = self.forgotten.pop((subject.name, name), None)
        if history is None:
            history = self.open_history(subject.name, name, 0)
        group = subject.groups[name] = Group(progress, history)
        subject.changed()
        return group

    def _is_known_group(self, subject: Subject, name: str) -> bool:
        """Whether a retry or dead-letter subject's real subject has the group."""
        parts = split_subject(subject.name)
        real = self.subjects.get(parts.subject) if parts.kind != "real" else None
        return real is not None and name in real.groups

    def _remove_group(self, subject: Subject, group: Group) -> None:
        progress = group.progress
        del subject.groups[progress.group]
        # Its files stay until a checkpoint without the group is saved: one that counts on them may be the newest now.
        self.forgotten[subject.name, progress.group] = group.history
        if not subject.groups:
            self.maybe_empty[subject.name] = None
        subject.changed()
