"""Dead dead letters: how many of which group, what each says of its end, and what is decided about them.

A dead letter lies in the append-only log of subject `%DEAD_RETRY%subject%group` until retention takes it. A decision (replayed,
deleted) is a row beside it: deleted dead letters are hidden, and none is replayed twice by mistake.

A replay is a copy with a message id of its own, so that no consumer's memory of the old id drops it. The id follows from the
dead letter and from how often it was replayed: when nobody knows whether a copy was stored, the next attempt has the same id, and
consumers that remember ids see one message. The dead letter's id goes along in property KEY_REPLAY_OF.
"""
