"""Repositories that fail."""

from metaserver.memory.row_wishes import CandidateLog, RowChange
from qmq_node.replication.rules.row import GroupRow
from qmq_testing.repository import MemoryRepository, MemoryRowStore


class FaultyRowStore(MemoryRowStore):
    """Rows of a `FaultyRepository`."""

    def change(
        self,
        name: str,
        change: RowChange,
        newest_place: tuple[int, int] | None,
        *,
        action: str,
        reason: str,
        log: CandidateLog | None = None,
    ) -> GroupRow:
        repository = self._repository
        assert isinstance(repository, FaultyRepository)
        if repository.is_away:
            raise ConnectionError("the database is away")
        row = super().change(name, change, newest_place, action=action, reason=reason, log=log)
        if repository.loses_replies:
            raise ConnectionError("the connection ended before the reply")
        return row


class FaultyRepository(MemoryRepository):
    """A database whose rows can't be changed at times."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = self.loses_replies = False

    def row_store(self) -> FaultyRowStore:
        return FaultyRowStore(self)
