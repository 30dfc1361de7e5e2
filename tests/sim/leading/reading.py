"""READ_COPY as a slave sends it to a master."""

from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame
from qmq.protocol.replication import ReadCopyRequest, ReadCopyResponse
from qmq_node.log.record import Position
from qmq_node.replication.slave_claim import SlaveClaim, prove
from tests.sim.leading.scene import EPOCH, PROMOTION, Scene

STATE = b"all that the log has lost " * 40
REQUEST = ReadCopyRequest("g1", "a", EPOCH, PROMOTION, 0, 0, 400)


def save(scene: Scene, offset: int, state: bytes = STATE) -> None:
    """Save a checkpoint at the master."""
    scene.leading.checkpoints.save([state], Position(offset, 7), offset)


async def connected(scene: Scene) -> Caller:
    caller = Caller(*scene.listener.server.address)
    await caller.connect()
    await prove(caller, scene.secret, SlaveClaim.of(REQUEST))
    return caller


async def read(caller: Caller, request: ReadCopyRequest) -> ReadCopyResponse | str:
    """The answer, or the code of the refusal."""
    frame: Frame = await caller.call(Command.READ_COPY, request.encode(), timeout_s=5)
    if frame.code == ResponseCode.PARAM_ERROR:
        return Refusal.decode(frame.body).code
    assert frame.code == ResponseCode.SUCCESS
    return ReadCopyResponse.decode(frame.body)
