"""Dead letters: counts by consumer group, their attempts, and their replay and deletion.

A dead letter is stored in the append-only log of subject `%DEAD_RETRY%subject%group` until retention deletes it. A decision
(replayed, deleted) is a row beside it: deleted dead letters are hidden, and none is replayed twice by mistake.

A replay is a copy with its own message ID, so that consumers that remember the old ID do not skip it. The ID is derived from the
dead letter and the number of its replays: when it is unknown whether a copy was stored, the next attempt has the same ID, and
consumers that remember IDs see one message. Property KEY_REPLAY_OF of the copy contains the dead letter's ID.
"""
