"""class LifeEnded: how a node has the process make another one."""

from qmq.errors import QmqError


class LifeEnded(QmqError):
    """The node stepped down or truncated its log, and has to open it again. The process does not end: it makes another node."""

    code = "replication.life_ended"
    retriable = True
