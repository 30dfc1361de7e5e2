"""Does what a broker would do in a thread at once, for tests that drive a store without an event loop."""

from collections.abc import Callable
from typing import TypeVar

from broker_node.reads.filters import TagMatch
from broker_node.reads.message_reader import Wanted, read_messages
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.message_log import UNBOUNDED, Raw
from broker_node.storage.oldest_sequence import adjust_begin
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Subject

T = TypeVar("T")


def complete(work: DiskWork) -> None:
    """Read and finish, until nothing is left to do."""
    following: DiskWork | None = work
    while following is not None:
        following.read()
        following = following.finish()


def repeat(request: Callable[[DiskWork | None], T]) -> T:
    """Make a request, and again with what it needed from the disk, until it has a result."""
    done: DiskWork | None = None
    while True:
        try:
            return request(done)
        except DiskWork as work:
            complete(work)
            done = work


def read_once(
    store: MessageStore,
    subject: Subject,
    begin: int,
    end: int,
    *,
    bytes_max: int = UNBOUNDED,
    match: TagMatch | None = None,
    plan: DiskWork | None = None,
) -> list[Raw | None]:
    """The messages [begin, end), as a request on the event loop gets them."""
    wanted = Wanted(((begin, end),), end - begin, bytes_max, match)
    return read_messages(store, subject, wanted, plan).raws


def read_and_repair(store: MessageStore, subject: Subject, begin: int, end: int) -> list[Raw | None]:
    """The messages [begin, end), after reads from the disk and repairs."""
    return repeat(lambda plan: read_once(store, subject, begin, end, plan=plan))


def forget_removed(store: MessageStore, subject: Subject) -> None:
    """Let a subject begin where the log does, as the next request for it would."""
    repeat(lambda _: adjust_begin(store, subject))
