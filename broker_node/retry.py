"""Messages that a consumer took and did not finish go to their group's retry subject.

The broker writes the raw bytes again, unchanged, under the retry subject's name (`reference` 6.5): the attempt number does
not rise, because nobody is known to have tried. The new record and the action that settles the old assignment are in the
same commit or a later one, so a crash between them repeats a message and never loses one.
"""

from collections.abc import Iterable
from zlib import crc32

from broker_node.actions import Origin, SequenceRun
from broker_node.pull_log import PullRun
from broker_node.reader import read_messages
from broker_node.store import MessageStore
from broker_node.subject import Group, Subject
from qmq.protocol.names import retry_subject, split_subject
from qmq.protocol.scan import CRC_BYTES, walk_stored

RETRY_BATCH_MESSAGES = 500
"""Messages written to a retry subject as one record."""


def move_to_retry(store: MessageStore, subject: Subject, group: Group, runs: Iterable[PullRun | SequenceRun]) -> int:
    """Write the messages of these consume sequences to the group's retry subject; how many there were.

    A message that is withheld or past retention can't be written again and is passed over.
    """
    # Nobody pulls a retry subject of a dead-letter subject: its messages go back where they came from.
    is_dead = split_subject(subject.name).kind == "dead"
    target = subject if is_dead else store.subject(retry_subject(subject.name, group.progress.group))
    moved = 0
    for run in runs:
        begin = max(run.begin, subject.begin)
        while begin < run.begin + run.count:
            end = min(begin + RETRY_BATCH_MESSAGES, run.begin + run.count)
            raws = read_messages(store, subject, begin, end, cached_only=False)
            entries = b"".join(crc32(raw).to_bytes(CRC_BYTES, "big") + bytes(raw) for raw in raws if raw is not None)
            if entries:
                body = memoryview(entries)
                entry_run = walk_stored(body, target.name)
                store.append_run(target, entry_run, body, store.clock.wall_ms(), Origin.BROKER_RETRY)
                moved += entry_run.count
            begin = end
    return moved
