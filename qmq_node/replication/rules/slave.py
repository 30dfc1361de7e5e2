"""class Slave: what a slave accepts, confirms and applies. Pure."""

from dataclasses import dataclass, replace


class CommitsRejected(Exception):
    """Commits that a slave does not take. The session ends."""


@dataclass(frozen=True, slots=True)
class Slave:
    """The state of a slave in one session. The log engine has checked each commit's CRC, chain and place before it counts here."""

    epoch: int
    promotion_id: str
    session: int
    end: int
    """Where its log ends."""
    synced_end: int
    high_watermark: int
    """The highest one that a master of this epoch stated."""
    is_copying: bool = False
    """It is far behind and syncs many commits at once: after a power cut any part of them may be missing, so nothing counts."""

    def received(
        self,
        epoch: int,
        promotion_id: str,
        session: int,
        offset: int,
        end: int,
        high_watermark: int,
        *,
        begins_segment: bool = False,
        lost_from: int | None = None,
        state_offset: int = 0,
    ) -> "Slave":
        """Commits [offset, end) of the master arrived. Empty ones only state the high watermark.

        Args:
            begins_segment: whether they are the first ones of a segment, before which the rest of the last one may be unused.
            lost_from: where the range begins that ends at `offset` and that the group has lost; None: nothing is.
            state_offset: where the state stands to which the log is copied; 0: the log is followed, and all of it is applied.

        Raises:
            CommitsRejected: they are of another epoch or session, or do not begin where the log ends.
        """
        if (epoch, promotion_id) != (self.epoch, self.promotion_id):
            raise CommitsRejected(
                f"commits of epoch {epoch}, promotion {promotion_id!r}; the slave follows epoch {self.epoch},"
                f" promotion {self.promotion_id!r}"
            )
        if session != self.session:
            raise CommitsRejected(f"commits of session {session}; the slave is in session {self.session}")
        if lost_from is not None and (lost_from != self.end or max(offset, lost_from + 1) > state_offset):
            raise CommitsRejected(
                f"commits that leave out what is lost from {lost_from} to {offset}; the slave's log ends at {self.end},"
                f" and its state stands at {state_offset}"
            )
        is_behind_gap = begins_segment or lost_from is not None
        if offset < self.end or (offset > self.end and not is_behind_gap) or end < offset:
            raise CommitsRejected(f"commits [{offset}, {end}); the slave's log ends at {self.end}")
        high_watermark = max(self.high_watermark, high_watermark)
        return Slave(self.epoch, self.promotion_id, session, end, self.synced_end, high_watermark, self.is_copying)

    def synced(self, end: int) -> "Slave":
        """Everything below `end` is on disk."""
        return replace(self, synced_end=max(self.synced_end, end))

    @property
    def confirmable_end(self) -> int | None:
        """The end to confirm; None while nothing may be confirmed."""
        return None if self.is_copying else self.synced_end
