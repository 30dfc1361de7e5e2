"""A node's checkpoints keep the epochs of its log."""

import pytest

from qmq_node.log.epochs import EpochChain
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.delay_driver import DelayDriver
from tests.support.drivers.store_driver import StoreDriver


@pytest.mark.parametrize("kind", [StoreDriver, DelayDriver])
def test_epochs_below_a_checkpoint_are_known_after_a_restart(kind: type[StoreDriver] | type[DelayDriver]) -> None:
    driver = kind(MemoryDisk(), 1)
    driver.send("orders", 2)
    driver.commit()
    begin = driver.store.log.written_end
    driver.store.log.begin_epoch(5)
    driver.send("orders", 2)
    driver.commit()
    driver.checkpoint()
    driver.send("orders", 2)
    driver.commit()
    driver.restart()
    assert driver.store.log.epochs == EpochChain.of([(1, 0), (5, begin)])
    assert driver.store.log.epoch == 5
