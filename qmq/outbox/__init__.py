"""Messages in the transactions of a database: a table of pending messages that is written with the business rows, and its relay.

A program adds messages to its transaction with `qmq.integrations.django.outbox`, `qmq.outbox.sqlalchemy` or
`qmq.outbox.dbapi`. After the commit they are sent from memory; what a crash or an outage left in the table is sent by a
relay (`qmq.outbox.relay`). The table and its content are those of QMQ's Java client, so that producers and relays of
both work with the rows of either.
"""
