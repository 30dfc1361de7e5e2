"""Outbox databases: business databases whose outbox the control plane watches and relays (`qmq.outbox`)."""
