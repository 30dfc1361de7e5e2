"""Idempotent consumption: a handler's effect happens once for each consumer group and key, although deliveries repeat.

`qmq.idempotent.sql`, `qmq.idempotent.sqlalchemy` and `qmq.integrations.django.idempotent` insert a marker as the first statement of
the handler's own transaction: marker and effect are committed together or not at all. `qmq.idempotent.redis` keeps markers beside
the effect and reduces repetitions only.
"""
