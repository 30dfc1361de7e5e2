"""Repositories that fail."""

from metaserver.domain import StoredConsumerGroup
from metaserver.memory.membership_wishes import MembershipWish
from qmq_node.replication.rules.membership import Membership
from qmq_testing.repository import MemoryMembershipStore, MemoryRepository


class FaultyMembershipStore(MemoryMembershipStore):
    """Memberships of a `FaultyRepository`."""

    def change(self, name: str, wish: MembershipWish, newest_place: tuple[int, int]) -> Membership:
        repository = self._repository
        assert isinstance(repository, FaultyRepository)
        if repository.is_away:
            raise ConnectionError("the database is away")
        membership = super().change(name, wish, newest_place)
        if repository.loses_replies:
            raise ConnectionError("the connection ended before the reply")
        return membership


class FaultyRepository(MemoryRepository):
    """A database whose memberships can't be changed, and whose consumer groups can't be read, at times."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = self.loses_replies = False

    def consumer_groups(self, after: int, count: int) -> list[StoredConsumerGroup]:
        if self.is_away:
            raise ConnectionError("the database is away")
        return super().consumer_groups(after, count)

    def membership_store(self) -> FaultyMembershipStore:
        return FaultyMembershipStore(self)
