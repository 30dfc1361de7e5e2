"""class Master: what a master counts before it answers, and when it may change the in-sync set. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from qmq.protocol.group_memberships import InSyncChange
from qmq_node.replication.rules.membership import ChangeInSync, Membership

NOTHING_CONFIRMED = -1


class SessionRejected(Exception):
    """A confirmation that does not count. The session ends; `is_alarm`: a rule was broken somewhere.

    `code` is the kind of reason, for counters.
    """

    def __init__(self, reason: str, code: str, *, is_alarm: bool = False) -> None:
        super().__init__(reason)
        self.code = code
        self.is_alarm = is_alarm


@dataclass(frozen=True, slots=True)
class Session:
    """One slave that follows, from its FOLLOW to the end of the connection or of either process."""

    slave: str
    number: int
    incarnation: str
    """Of the slave's data folder."""
    confirmed: int = NOTHING_CONFIRMED
    """The highest log offset that the slave confirmed in this session: everything below is synced there."""


@dataclass(frozen=True, slots=True)
class Master:
    """The state of a master in its epoch."""

    node_id: str
    membership: Membership
    """The newest one of its epoch that it knows to be stored."""
    begin: int
    """Where its log ended when it was promoted."""
    synced_end: int
    high_watermark: int
    """The first log offset that some counted member, or the one that is joining, may lack. It never falls."""
    sessions: tuple[Session, ...] = ()
    """At most one for each slave."""
    requested: frozenset[tuple[str, str]] = frozenset()
    """Slaves, each with the incarnation of its data folder, whose addition it has requested for this version of the
    membership. The membership may contain them already."""
    joining: str = ""
    """A slave for which the high watermark waits until its addition may be requested. It does not count yet: the
    membership can't name it. "": there is none."""

    @property
    def counted(self) -> frozenset[str]:
        """The members that have to sync a commit before it is below the high watermark.

        A slave counts from the moment its addition is requested, and until the membership without it is stored: the
        membership may name it at any time in between, and who is in the membership may be promoted.
        """
        return frozenset(self.membership.in_sync) | {slave for slave, _ in self.requested} | {self.node_id}

    def may_follow(self, slave: str, incarnation: str) -> bool:
        """Whether a slave may begin a session. A member that counts may with the data folder that the membership names,
        no other: the membership may have it promoted with what was in that one."""
        return slave not in self.counted or incarnation == self._counted_incarnation(slave)

    def _counted_incarnation(self, slave: str) -> str:
        return dict(self.requested).get(slave) or self.membership.incarnation_of(slave)

    @property
    def accepts_sends(self) -> bool:
        """Whether enough members are in sync for sends to be accepted and answered."""
        return len(self.membership.in_sync) >= self.membership.in_sync_min_in_force

    def session_of(self, slave: str) -> Session | None:
        """Return the session of a slave that follows."""
        return next((session for session in self.sessions if session.slave == slave), None)

    # --- what happens ----------------------------------------------------------------------------------------------

    def synced(self, end: int) -> "Master":
        """Everything below `end` is on the master's own disk."""
        end = max(self.synced_end, end)
        return Master(
            self.node_id,
            self.membership,
            self.begin,
            end,
            self._reached(end, self.sessions),
            self.sessions,
            self.requested,
            self.joining,
        )

    def followed(self, slave: str, number: int, incarnation: str) -> "Master":
        """A slave for which `may_follow` holds begins a session, which ends any other that it has."""
        if not self.may_follow(slave, incarnation):
            raise ValueError(f"{slave!r} may not follow with data folder {incarnation!r}")
        sessions = (*self._others(slave), Session(slave, number, incarnation))
        return replace(self, sessions=sessions).without_joining(slave)

    def session_ended(self, slave: str, number: int) -> "Master":
        """A session ended. What the slave confirmed in it counts no longer, as its next process may have less."""
        session = self.session_of(slave)
        if session is None or session.number != number:
            return self
        return replace(self, sessions=tuple(self._others(slave))).without_joining(slave)

    def confirmed(self, slave: str, number: int, end: int, crc: int, own_crc: int | None) -> "Master":
        """A slave confirmed that everything below `end` is on its disk.

        Args:
            crc: of the slave's commit that ends there.
            own_crc: of the master's commit that ends there; None if no commit of the master does.

        Raises:
            SessionRejected: the confirmation does not count.
        """
        session = self.session_of(slave)
        if session is None or session.number != number:
            raise SessionRejected(f"node {slave!r} has no session {number}", "other_session")
        if own_crc is None:
            raise SessionRejected(
                f"node {slave!r} confirmed log offset {end}, where no commit of the master ends",
                "no_commit",
                is_alarm=True,
            )
        if crc != own_crc:
            raise SessionRejected(
                f"node {slave!r} has another commit before log offset {end}", "other_crc", is_alarm=True
            )
        if end < session.confirmed:
            raise SessionRejected(
                f"node {slave!r} confirmed log offset {end} after {session.confirmed}", "below_last", is_alarm=True
            )
        sessions = (*self._others(slave), Session(slave, number, session.incarnation, end))
        return Master(
            self.node_id, self.membership, self.begin, self.synced_end, self._reached(self.synced_end, sessions), sessions,
            self.requested, self.joining,
        )  # fmt: skip

    def learned(self, membership: Membership) -> "Master":
        """A membership of this epoch is stored. An older one than known changes nothing.

        What was requested for an older version can't be made any more. Sessions of slaves that are in sync with another data folder
        end: a membership that was restored from a backup and replaced may name another one than was requested.
        """
        if membership.epoch != self.membership.epoch or membership.version <= self.membership.version:
            return self
        learned = replace(self, membership=membership, requested=frozenset())
        kept = tuple(session for session in self.sessions if learned.may_follow(session.slave, session.incarnation))
        learned = replace(learned, sessions=kept)
        joining = learned.joining if learned._may_be_added(learned.joining) else ""
        return replace(learned, joining=joining)._advanced()

    # --- the in-sync set -------------------------------------------------------------------------------------------

    def may_add(self, slave: str) -> bool:
        """Whether the addition of a slave may be requested: it has everything that is below the high watermark, and
        everything that was in the log when the epoch began."""
        session = self.session_of(slave)
        return (
            session is not None
            and self._may_be_added(slave)
            and session.confirmed >= max(self.high_watermark, self.begin)
        )

    def _may_be_added(self, slave: str) -> bool:
        """Whether a slave that follows is a member that is not in sync."""
        membership = self.membership
        is_other = slave in membership.members and slave not in membership.in_sync
        return is_other and self.session_of(slave) is not None

    def may_join(self, slave: str) -> bool:
        """Whether the high watermark may wait for a slave until its addition may be requested."""
        return not self.joining and self._may_be_added(slave) and slave not in self.counted

    def with_joining(self, slave: str) -> "Master":
        """Let the high watermark wait for a slave for which `may_join` holds. One that always lacks what was written
        within the last moments is never added otherwise."""
        if not self.may_join(slave):
            raise ValueError(f"the high watermark may not wait for {slave!r}")
        return replace(self, joining=slave)

    def without_joining(self, slave: str) -> "Master":
        """Wait for a slave no longer, unless it counts."""
        return replace(self, joining="")._advanced() if slave == self.joining else self

    def add(self, slave: str) -> tuple["Master", ChangeInSync]:
        """Request the addition of a slave for which `may_add` holds; it counts from now on."""
        if not self.may_add(slave):
            raise ValueError(f"the addition of {slave!r} may not be requested")
        session = self.session_of(slave)
        assert session is not None
        added = slave, session.incarnation
        return replace(self, requested=self.requested | {added}), self._change(InSyncChange.ADD, *added)

    def remove(self, slave: str) -> ChangeInSync:
        """Request the removal of a slave. It counts until the membership without it is stored."""
        return self._change(InSyncChange.REMOVE, slave)

    def _change(self, change: InSyncChange, member: str, incarnation: str = "") -> ChangeInSync:
        membership = self.membership
        return ChangeInSync(
            membership.broker_group, self.node_id, membership.epoch, membership.promotion_id, membership.version,
            change, member, incarnation=incarnation,
        )  # fmt: skip

    def _others(self, slave: str) -> Iterable[Session]:
        return (session for session in self.sessions if session.slave != slave)

    def _advanced(self) -> "Master":
        """Raise the high watermark to what all counted members have."""
        return replace(self, high_watermark=self._reached(self.synced_end, self.sessions))

    def _reached(self, synced_end: int, sessions: tuple[Session, ...]) -> int:
        """Return the high watermark when this node has synced what is below `synced_end`."""
        confirmed = {session.slave: session.confirmed for session in sessions}
        waited_for = self.counted | {self.joining} if self.joining else self.counted
        ends = [confirmed.get(member, NOTHING_CONFIRMED) for member in waited_for if member != self.node_id]
        return max(min([synced_end, *ends]), self.high_watermark)
