"""Deliberate breakages of the product: each changes one place, and one check of the simulation must notice it.

A check without a breakage that it catches proves nothing. Where `is_alone` is set, no other check notices the breakage.
"""

from dataclasses import dataclass, replace

from tests.sim.swarm.runs import Mix, Report, run_seed
from tests.support.source_change import SourceChange

CALM = Mix(
    brokers=2,
    subjects=1,
    faults=(),
    fault_seconds=2.0,
    groups=("raw",),
    delayed=0.0,
    batches=0.0,
    poison=0.0,
    gives_back=0.0,
    has_operator=False,
    storm_seconds=8.0,
)
"""A small run without faults."""
POWER = replace(CALM, faults=("power_cut",), fault_seconds=0.7, storm_seconds=14.0, slowness=300.0, batches=0.5)
KILLS = replace(CALM, faults=("kill",), fault_seconds=0.7, storm_seconds=12.0)
CUTS = replace(CALM, faults=("cut",), fault_seconds=0.5, storm_seconds=40.0)
DELAYED = replace(CALM, delayed=0.7)
REAL = replace(CALM, groups=("real",))
SEEDS = tuple(range(1, 11))
"""Each breakage is caught in one of these runs."""


@dataclass(frozen=True)
class Breakage(SourceChange):
    """One change of one function, and the runs that notice it."""

    caught_by: str
    """The name of the check."""
    mix: Mix = CALM
    seeds: tuple[int, ...] = SEEDS
    is_alone: bool = False
    """No other check finds anything in one of these runs."""

    def run(self) -> Report:
        """The first run that the check fails, as it should, or the last one."""
        for seed in self.seeds:
            with self.applied():
                report = run_seed(seed, self.mix)
            if self.is_noticed(report):
                break
        return report

    def is_noticed(self, report: Report) -> bool:
        """Whether the check noticed it in a run, alone if it has to."""
        found = {broken.check for broken in report.broken}
        return found == {self.caught_by} if self.is_alone else self.caught_by in found


BREAKAGES = (
    # --- durability of brokers
    Breakage(
        "a send is answered before its sync",
        "qmq_node.requests.sends:SendHandler._handle_now",
        "self._committer.when_synced(offset, lambda: self._answer(connection, frame, body))",
        "self._committer.kick(); connection.reply(frame, ResponseCode.SUCCESS, body)",
        "lost",
        replace(POWER, groups=("once",)),
        is_alone=True,
    ),
    Breakage(
        "a commit is not synced",
        "qmq_node.log.writer:CommitWriter.write",
        "file.datasync()",
        "pass",
        "lost",
        POWER,
    ),
    Breakage(
        "a failed sync is passed over",
        "qmq_node.log.writer:CommitWriter.write",
        "file.datasync()",
        "exec('try:\\n file.datasync()\\nexcept OSError: pass')",
        "lost",
        replace(POWER, faults=("failing_sync", "power_cut"), fault_seconds=0.5),
    ),
    Breakage(
        "messages are visible before their sync",
        "broker_node.storage.store:MessageStore.append_run",
        "self._unsynced.append(_Unsynced(record, subject, index_entries, part.end - part.begin))",
        "self.index(subject, index_entries, part.end - part.begin)",
        "order",
        POWER,
        is_alone=True,
    ),
    Breakage(
        "a refusal of a batch is not reported",
        "qmq_node.requests.sends:SendHandler._handle_now",
        "encode_send_response(failures)",
        "encode_send_response([])",
        "lost",
        replace(CALM, faults=("full_disk",), fault_seconds=0.5, batches=0.9, storm_seconds=25.0),
    ),
    Breakage(
        "a message's checksum is not compared",
        "broker_node.storage.message_log:MessageLog._read_whole",
        "all(raws) and list(map(crc32, heads_checks[::2], map(crc32, raws))) == list(heads_checks[1::2])",
        "all(raws)",
        "content",
        replace(CALM, faults=("flipped_bit",), fault_seconds=0.05, batches=0.9, storm_seconds=25.0),
    ),
    # --- delivery
    Breakage(
        "an assignment is answered before its sync",
        "broker_node.delivery.pulls:PullHandler._answer",
        "self._committer.when_synced(answer.wait_for, synced)",
        "self._committer.kick(); synced()",
        "sequence",
        POWER,
    ),
    Breakage(
        "pull sequences follow what the consumer names",
        "broker_node.delivery.delivery:Delivery._deliver_new",
        "pull_begin = max(consumer.log.pulled, request.pull_last + 1)",
        "pull_begin = request.pull_last + 1",
        "sequence",
        replace(CALM, faults=("reset",), fault_seconds=0.3),
        is_alone=True,
    ),
    Breakage(
        "an ack is answered and not stored",
        "broker_node.delivery.acks:Acks.act",
        "self._store.act(subject, group, action, consumer.names)",
        "consumer.log.ack(begin, end)",
        "duplicate",
        KILLS,
    ),
    Breakage(
        "an ack is answered before its sync",
        "broker_node.handlers:Handlers._ack",
        "self._committer.when_synced(offset, lambda: connection.reply(frame, ResponseCode.SUCCESS), is_urgent=False)",
        "self._committer.kick(); connection.reply(frame, ResponseCode.SUCCESS)",
        "duplicate",
        POWER,
        is_alone=True,
    ),
    Breakage(
        "a message is assigned to two consumers",
        "broker_node.storage.progress:GroupProgress._apply_pull",
        "self.next_sequence = pull.next_sequence",
        "self.next_sequence = pull.next_sequence - (7 <= pull.pull_begin < 12)",
        "duplicate",
        is_alone=True,
    ),
    Breakage(
        "an ack covers one message more",
        "broker_node.storage.pull_log:PullLog.ack",
        "end = min(end, self.pulled)",
        "end = min(end + 20, self.pulled)",
        "undelivered",
        replace(REAL, faults=("kill_client",), fault_seconds=0.5, batches=0.9),
    ),
    Breakage(
        "what a silent consumer holds is never retried",
        "broker_node.delivery.pending_settlements:Settlements.settle",
        "return self._begin(subject, group, consumer, everything)",
        "return None",
        "progress",
        replace(REAL, faults=("kill_client",), fault_seconds=0.5, batches=0.9),
    ),
    Breakage(
        "what a leaving consumer holds is dropped",
        "broker_node.delivery.settlement:Settlement.step",
        "moved = move_to_retry(self._store, subject, group, runs, budget, self.plan)",
        "from broker_node.delivery.retry_writer import Moved; moved = Moved(runs_done=len(runs))",
        "progress",
        replace(REAL, faults=("kill_client",), fault_seconds=0.5),
    ),
    Breakage(
        "a retried message loses its body",
        "qmq.protocol.messages:resent_entry",
        "not in keys",
        "not in keys | {b'data'}",
        "content",
        replace(REAL, gives_back=0.3),
        is_alone=True,
    ),
    Breakage(
        "tags are matched by their beginning",
        "qmq.client.source:Subscription.__init__",
        "tuple(tags)),) if tags else ()",
        "tuple(tags[:1])),) if tags else ()",
        "progress",
        replace(CALM, groups=("tags",)),
    ),
    Breakage(
        "new messages are delivered whatever their tags are",
        "broker_node.delivery.delivery:Delivery._deliver_new",
        "match = tag_match(request.filters)",
        "match = None",
        "unwanted",
        replace(CALM, groups=("tags",)),
        is_alone=True,
    ),
    Breakage(
        "messages are given up without a dead letter",
        "qmq.client.workers:Retries.send_back",
        "subject = target(self.subject, group)",
        "subject = retry_subject(self.subject, group)",
        "undelivered",
        replace(REAL, poison=0.2),
        is_alone=True,
    ),
    Breakage(
        "held pulls of a closed connection are kept",
        "broker_node.delivery.long_poll:LongPolls.done",
        "del self._by_ticket[pull.ticket]",
        "pass",
        "resources",
        is_alone=True,
    ),
    # --- connections
    Breakage(
        "a closed connection is not forgotten",
        "qmq_node.server.server:FrameServer.release",
        "self.connections.pop(connection, None)",
        "pass",
        "resources",
        is_alone=True,
    ),
    Breakage(
        "answers go to the wrong request",
        "qmq.net.caller:Caller.call_soon",
        "self._pending[opaque] = future",
        "self._pending[opaque - opaque % 50 if opaque % 50 == 1 else opaque] = future",
        "progress",
        is_alone=True,
    ),
    # --- the client
    Breakage(
        "a send that timed out counts as stored",
        "qmq.client.sender:Sender._send_to",
        "batch.may_be_stored = True",
        "self._settle(batch, batch.receipts(route.name)); return self._attempt_ended()",
        "lost",
        replace(KILLS, faults=("kill", "cut")),
    ),
    Breakage(
        "a refused message is reported as stored",
        "qmq.client.outgoing:classify",
        "if failure is None or failure.result == SendResult.MESSAGE_DUPLICATE:",
        "if True:",
        "lost",
        replace(CALM, has_operator=True, storm_seconds=20.0),
    ),
    Breakage(
        "a message without an answer is reported as not stored",
        "qmq.client.sender:Sender._send_to",
        "batch.may_be_stored = True\n            self._attempt_failed(batch, route, str(error))",
        "self._settle(batch, [SendFailed('it is not stored') for _ in batch.ids])",
        "phantom",
        replace(KILLS, slowness=60.0, batches=0.5),
        is_alone=True,
    ),
    Breakage(
        "each message is sent twice",
        "qmq.client.sender:Sender._send_to",
        "caller.call_soon(Command.SEND_MESSAGE, *batch.entries)",
        "caller.call_soon(Command.SEND_MESSAGE, *batch.entries, *batch.entries)",
        "stored_twice",
        is_alone=True,
    ),
    Breakage(
        "a consumer acks before its handler has run",
        "qmq.client.ack_window:Span.settled_first",
        "if self.open else len(self.marks)",
        "if False else len(self.marks)",
        "undelivered",
        replace(REAL, faults=("kill_client",), fault_seconds=0.25, batches=0.9),
    ),
    Breakage(
        "at most once delivers before the ack is confirmed",
        "qmq.client.fetcher:Fetcher._pull",
        "await self._acker.ack_batch(pulled, last, began)",
        "pass",
        "once",
        replace(CALM, groups=("once",), faults=("kill_client",), fault_seconds=0.4),
        is_alone=True,
    ),
    # --- the delay node
    Breakage(
        "a delayed send is answered before its sync",
        "qmq_node.requests.sends:SendHandler._handle_now",
        "self._committer.when_synced(offset, lambda: self._answer(connection, frame, body))",
        "self._committer.kick(); connection.reply(frame, ResponseCode.SUCCESS, body)",
        "lost",
        replace(POWER, delayed=0.9, brokers=1),
    ),
    Breakage(
        "messages are delivered a second early",
        "delay_node.dispatcher:Dispatcher._fetch",
        "now_ms = self._clock.now_ms()",
        "now_ms = self._clock.now_ms() + 1000",
        "early",
        DELAYED,
        is_alone=True,
    ),
    Breakage(
        "each step of the clock is believed",
        "delay_node.trusted_clock:TrustedClock.now_ms",
        "if ahead_ms > self._allowance_ms:",
        "if False:",
        "early",
        replace(DELAYED, faults=("clock_step",), fault_seconds=0.4),
        is_alone=True,
    ),
    Breakage(
        "a cancel is confirmed and not made",
        "delay_node.changes:Changes._decide",
        "self.store.act(RecordKind.CANCELLED, [entry.ref], now_ms)",
        "pass",
        "cancelled",
        DELAYED,
        is_alone=True,
    ),
    Breakage(
        "a cancel of a message on its way is confirmed",
        "delay_node.changes:Changes._decide",
        "answer(Outcome.UNCHANGED if done_already else Outcome.TOO_LATE, state)",
        "answer(Outcome.DONE, state)",
        "cancelled",
        DELAYED,
    ),
    Breakage(
        "a rescheduled message stays at its old time as well",
        "delay_node.store:DelayStore.move",
        "old.states[number_of(ref)] = State.MOVED",
        "pass",
        "early",
        DELAYED,
    ),
    Breakage(
        "a message counts as delivered before a broker has it",
        "delay_node.batches:BatchSender._claim",
        "return set(fresh)",
        # They are counted twice: without the second part the node would report a negative number, and be refused.
        "self._store.act(RecordKind.DELIVERED, fresh, self._clock.now_ms())\n"
        "    self._store.pending += len(fresh)\n"
        "    return set(fresh)",
        "lost",
        replace(DELAYED, faults=("kill",), fault_seconds=0.4, batches=0.9, slowness=60.0, brokers=1),
    ),
    Breakage(
        "an answer without a result counts as delivered",
        "delay_node.batches:BatchSender._send",
        "        self.counters.unknown += len(items)\n        self._failed(items, route, str(error))\n        return\n",
        "        failures = {}\n",
        "lost",
        replace(DELAYED, faults=("kill",), fault_seconds=0.4, batches=0.9, slowness=60.0, brokers=1),
    ),
    Breakage(
        "hours are not loaded after a restart",
        "delay_node.store:DelayStore.load",
        "    for second, keys in seconds:\n        self.wheel.add_second(second, keys)",
        "    pass",
        "progress",
        replace(DELAYED, faults=("kill",), fault_seconds=0.5),
    ),
    Breakage(
        "the count of pending messages is not reduced by a cancel",
        "delay_node.store:DelayStore._note",
        "self.pending += hour.pending - pending",
        "self.pending += (hour.pending - pending) * (kind != RecordKind.CANCELLED)",
        "progress",
        DELAYED,
    ),
    # --- metaservers
    Breakage(
        "a metaserver takes groups offline that another one hears",
        "metaserver.memory.live_groups:LiveGroup.is_silent",
        "and not self.is_live_at_peer(now)",
        "",
        "hearing",
        replace(CUTS, metas=2),
        is_alone=True,
    ),
    Breakage(
        "a metaserver does not read what others stored of subjects",
        "metaserver.stored.stored_metadata:StoredMetadata._load_routes",
        "if known is None or known.version < route.version:",
        "if False:",
        "agreement",
        replace(CALM, metas=2),
        is_alone=True,
    ),
    # --- derived state, processes, metadata
    Breakage(
        "an ack is not replayed",
        "broker_node.recovery.replay:BrokerReplay._action",
        "store.apply(subject, group, action, offset, self._seen_at)",
        "type(action).__name__ == 'Ack' or store.apply(subject, group, action, offset, self._seen_at)",
        "derived",
        is_alone=True,
    ),
    Breakage(
        "a commit can't be applied",
        "broker_node.storage.store:MessageStore.completed",
        "unsynced = self._unsynced",
        "unsynced = self._unsynced; 1 // (not 1095 < self.clock.monotonic() < 1096)",
        "failure",
        is_alone=True,
    ),
    Breakage(
        "a lost connection ends a consumer",
        "qmq.client.acker:Acker.run",
        "except QmqError as error:",
        "except ZeroDivisionError as error:",
        "client",
        replace(REAL, faults=("kill", "reset"), fault_seconds=0.5),
        is_alone=True,
    ),
)
