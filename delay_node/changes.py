"""Changes of delayed messages: cancel, reschedule, deliver now.

Messages are located in threads. Each decision is taken on the event loop in one step, on the state that the message has then: of a
cancel and a delivery exactly one wins, and each answer says which.
"""

from dataclasses import dataclass, replace

from delay_node.errors import BadQuery
from delay_node.found import WORDS, by_hour
from delay_node.queries import Queries
from delay_node.records import RecordKind, State
from delay_node.schedule_log import Entry, message_id_of
from delay_node.store import DelayStore
from delay_node.times import check_time
from delay_node.trusted_clock import DUE_TOLERANCE_MS, TrustedClock
from qmq.protocol.delayed import (
    CancelDelayedRequest,
    CancelDelayedResponse,
    ChangeDelayedRequest,
    ChangeDelayedResponse,
    DelayedChange,
    DelayedTarget,
    Operation,
    Outcome,
)
from qmq.protocol.messages import redate_entry
from qmq_node.commits.committer import Committer


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one node's messages. `delay_max_ms`: how far ahead a due time may be."""

    store: DelayStore
    queries: Queries
    committer: Committer
    clock: TrustedClock
    delay_max_ms: int

    async def change(self, request: ChangeDelayedRequest) -> ChangeDelayedResponse:
        """Cancel, reschedule or deliver now; synced when it returns. Each copy is decided in one step, hour by hour.

        Raises BadQuery for an invalid due time, or LogError: some may be changed, and the same request can be repeated.
        """
        if request.operation is Operation.RESCHEDULE:
            if request.delay_ms >= 0:
                due_ms = self.clock.now_ms() + request.delay_ms
                request = replace(request, due_ms=due_ms, delay_ms=-1)
            self.check_due(request.due_ms)
        located = await self.queries.locate(request.targets)
        decided: dict[int, DelayedChange | None] = {}
        for number, mine in by_hour([entry for entries in located for entry in entries]).items():
            async with self.store.open_hours.use(number) as hour:
                now_ms = self.clock.now_ms()
                for entry in mine if hour is not None else ():
                    if entry.ref not in decided:
                        decided[entry.ref] = self._decide(request, entry, now_ms)
        await self.committer.synced(self.store.log.gather.records_end - 1)
        return ChangeDelayedResponse(
            tuple(
                _summary(target, [change for entry in entries if (change := decided.get(entry.ref)) is not None])
                for target, entries in zip(request.targets, located, strict=True)
            )
        )

    def check_due(self, due_ms: int) -> None:
        """Check a due time. Raises BadQuery."""
        check_time(due_ms, "due_ms")
        ahead_ms = due_ms - self.clock.now_ms()
        if ahead_ms > self.delay_max_ms + DUE_TOLERANCE_MS:
            raise BadQuery(
                f"due time {due_ms} is {ahead_ms / 86_400_000:.1f} days ahead, at most {self.delay_max_ms / 86_400_000:g}"
                " are accepted (delay_max_days)",
                code="delay.too_far",
            )

    def _decide(self, request: ChangeDelayedRequest, entry: Entry, now_ms: int) -> DelayedChange | None:
        """Decide about one copy; None when it is not the copy that counts."""
        state = self.store.state(entry.ref)
        assert entry.data is not None
        message_id = message_id_of(entry.data)

        def answer(outcome: Outcome, becomes: State, due_ms: int = entry.due_ms) -> DelayedChange:
            return DelayedChange(message_id, outcome, WORDS[becomes], due_ms)

        if state in (State.MOVED, State.LOST):
            return None
        if state in (State.CLAIMED, State.DELIVERED):
            done_already = request.operation is Operation.DELIVER
            return answer(Outcome.UNCHANGED if done_already else Outcome.TOO_LATE, state)
        if request.operation is Operation.CANCEL:
            if state is State.CANCELLED:
                return answer(Outcome.UNCHANGED, state)
            self.store.act(RecordKind.CANCELLED, [entry.ref], now_ms)
            return answer(Outcome.DONE, State.CANCELLED)
        if state is State.CANCELLED:
            return answer(Outcome.TOO_LATE, state)
        due_ms = now_ms if request.operation is Operation.DELIVER else max(request.due_ms, now_ms)
        is_due_anyway = request.operation is Operation.DELIVER and entry.due_ms <= now_ms
        if state is State.PENDING and (is_due_anyway or entry.due_ms == request.due_ms):
            return answer(Outcome.UNCHANGED, state)
        self.store.move(entry.ref, due_ms, redate_entry(entry.data, due_ms), entry.subject, now_ms)
        return answer(Outcome.DONE, State.PENDING, due_ms)

    async def cancel_matching(self, request: CancelDelayedRequest) -> CancelDelayedResponse:
        """Cancel a page of what a query lists, or with `dry_run` only count it. Raises BadQuery and LogError as `change`."""
        query = request.query
        if not query.subject:
            raise BadQuery("a bulk cancel requires a subject", code="delay.subject_missing")
        page, cursor = await self.queries.page(query)
        matched = [found for found in page if found.state is not State.CLAIMED]
        if request.dry_run:
            return CancelDelayedResponse(len(page), 0, len(page) - len(matched), cursor)
        cancelled = 0
        for number, mine in by_hour(page).items():
            async with self.store.open_hours.use(number) as hour:
                if hour is not None:
                    still = [e.ref for e in mine if self.store.state(e.ref) in (State.PENDING, State.REFUSED)]
                    self.store.act(RecordKind.CANCELLED, still, self.clock.now_ms())
                    cancelled += len(still)
        await self.committer.synced(self.store.log.gather.records_end - 1)
        return CancelDelayedResponse(len(page), cancelled, len(page) - cancelled, cursor)


def _summary(target: DelayedTarget, changes: list[DelayedChange]) -> DelayedChange:
    """Return the answer for a message that may have several copies: the worst outcome of one."""
    worst_first = (Outcome.TOO_LATE, Outcome.DONE, Outcome.UNCHANGED)
    unknown = DelayedChange(target.message_id, Outcome.NOT_FOUND, "", -1)
    return min(changes, key=lambda change: worst_first.index(change.outcome), default=unknown)
