"""What one simulated run consists of: its loop, its network, and the machine that nodes of a test run on."""

from qmq.clock import Clock
from qmq_node.log.disk import Disk
from qmq_node.process.machine import Machine
from tests.sim.world.disk import DiskWeather, SimulatedDisk
from tests.sim.world.loop import SimulatedClock, SimulatedLoop, SimulatedThread
from tests.sim.world.network import Network, SimulatedListener


class World(SimulatedLoop):
    """A simulated loop with a network and one disk, which the nodes that a test starts in it share."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.network = Network(self)
        self.weather = DiskWeather()
        self._node_rng = self.rng("nodes")
        self.disk = SimulatedDisk(self, "test", self.rng("disk"), self.weather)

    def machine(self, clock: Clock | None = None, disk: Disk | None = None) -> Machine:
        """What a node in this world runs on."""
        return Machine(
            clock=clock or SimulatedClock(self),
            disk=disk or self.disk,
            listen=SimulatedListener,
            start_thread=SimulatedThread,
            rng=self._node_rng,
        )
