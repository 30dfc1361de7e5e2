"""Make damaged consume log entries again from the message log.

The log has no pointers back, so the segment that must hold the message is walked by its records: its good neighbours in
the index say which one. Rare (a bit that flipped on disk), so plain rather than fast.
"""

import logging

from broker_node.actions import MessagesHead
from broker_node.consume_log import ENTRY_BYTES, encode_run
from broker_node.message_log import visit_records
from broker_node.store import MessageStore
from broker_node.subject import Subject
from qmq.log.recovery import Commit
from qmq.protocol.scan import Run

logger = logging.getLogger("qmq.broker.index")

NEIGHBOURS_MAX = 4096
"""How far to look for a good entry before the damaged one, to know where in the log to begin."""


def repair_entries(store: MessageStore, subject: Subject, sequence: int) -> bytes:
    """The entry of one sequence, found in the log and written back; empty when the log no longer holds it whole."""
    found: list[bytes] = []

    def on_messages(_offset: int, head: MessagesHead, entries_offset: int, run: Run) -> None:
        if head.subject != subject.name or not head.first_sequence <= sequence < head.first_sequence + head.count:
            return
        entries = encode_run(run, entries_offset, head.stored_at_ms)
        at = (sequence - head.first_sequence) * ENTRY_BYTES
        found.append(entries[at : at + ENTRY_BYTES])

    def on_commit(commit: Commit) -> None:
        visit_records(commit.body, commit.body_offset, on_messages, lambda *_: None)

    begin, end = _bounds(store, subject, sequence)
    store.log.walk(begin, on_commit, stop=lambda offset: bool(found) or offset > end)
    if not found:
        return b""
    subject.consume_log.index.repair(sequence, found[0])
    store.counters.repaired_entries += 1
    logger.warning("subject %s: the index entry of message %d was damaged and made again", subject.name, sequence)
    return found[0]


def _bounds(store: MessageStore, subject: Subject, sequence: int) -> tuple[int, int]:
    """Where in the log to begin (a segment's base) and the last offset that can hold the message."""
    log, consume_log = store.log, subject.consume_log
    begin = log.begin
    low = max(subject.begin, sequence - NEIGHBOURS_MAX)
    for entry in reversed(list(consume_log.entries(low, sequence))):
        if not entry.is_withheld and store.message_log.is_message_whole(entry.log_offset, entry.size):
            begin = entry.log_offset
            break
    end = log.synced_end
    for entry in consume_log.entries(sequence + 1, sequence + 1 + NEIGHBOURS_MAX):
        if not entry.is_withheld and store.message_log.is_message_whole(entry.log_offset, entry.size):
            end = entry.log_offset
            break
    bases = [segment.base for segment in log.segments() if segment.base <= begin]
    return (max(bases) if bases else log.begin), end
