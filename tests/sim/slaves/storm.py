"""The faults of a run with slaves: those of the swarm on all members, and those that only matter with several members.

`FAULTS` has all of them, with their numbers in the fault list.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from qmq_node.replication.switch_overs import SwitchOverRejected, SwitchOverUnknown
from tests.sim.slaves.copies import CopyFaults
from tests.sim.slaves.cuts import SHAPES
from tests.sim.world.cluster import Host, MemberNode

AWAY_SECONDS = (7.0, 14.0)
"""Longer than a master may be silent: another member is promoted."""
PAIR_BEGINS_SECONDS = (0.5, 3.0)
"""When the pair of faults of a schedule begins."""
PAIR_SECONDS = 1.5
"""At most so long after the first fault of the pair, the second one begins."""
SWITCH_OVER_SECONDS = 10.0
"""How long a switch-over is waited for; its node may be killed meanwhile."""


class SlavesStorm(CopyFaults):
    """Injects faults into a broker group with slaves."""

    def _fault(self, name: str) -> Callable[[], object]:
        return partial(self.cut_shape, SHAPES[name]) if name in SHAPES else super()._fault(name)

    async def rage(self, seconds: float) -> None:
        """Inject faults for so long, among them the pair of the mix, one soon after the other."""
        self._begin(self._pair)
        if "interrupted_copy" in self._mix.faults:
            self._begin(self.first_copy)
        await super().rage(seconds)

    async def _pair(self) -> None:
        await asyncio.sleep(self._rng.uniform(*PAIR_BEGINS_SECONDS))
        for name in self._mix.faults[:2]:
            self._begin(self._fault(name))
            await asyncio.sleep(self._rng.uniform(0.0, PAIR_SECONDS))

    async def _end_faults(self) -> None:
        """End the faults that last for a while: `heal` ends what they did."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        hosts = list(self._cluster.hosts.values())
        for program in (*hosts, *self._actors):
            if program.process is not None:
                program.process.resume()
        for host in hosts:
            if host.process is not None and not host.is_wanted:
                await host.has_ended.wait()  # it stops

    async def kill_member(self) -> None:
        """A member is killed and starts again at once, or after another one was promoted."""
        host = self._member()
        if host.process is None:
            return
        seconds = self._rng.choice((0.05, 1.0, 3.0, self._rng.uniform(*AWAY_SECONDS)))
        self.note(f"kill {host.name} for {seconds:.1f} s")
        host.kill()
        await self._start_later(host, seconds)

    async def member_power_cut(self) -> None:
        """A member loses power for a short or a long time."""
        host = self._member()
        if host.process is None:
            return
        seconds = self._rng.choice((0.5, 2.0, self._rng.uniform(*AWAY_SECONDS)))
        self.note(f"power cut of {host.name} for {seconds:.1f} s")
        host.cut_power()
        await self._start_later(host, seconds)

    async def crash_at_step(self) -> None:
        """A member ends in the middle of what a thread of it does with files, also when it has just started again."""
        host = self._member()
        if host.process is None or host.weather.steps_until_crash:
            return
        for _ in range(self._rng.choice((1, 2, 4))):
            is_cut = self._rng.random() < 0.6
            steps = self._rng.randint(1, 30)
            self.note(f"{host.name} ends by a {'power cut' if is_cut else 'kill'} {steps} changes of files later")
            host.weather.crash = host.cut_power if is_cut else host.kill
            host.weather.steps_until_crash = steps
            await self._start_later(host, 0.0)
            await asyncio.sleep(self._rng.uniform(0.5, 3.0))
            host.weather.steps_until_crash = 0
        await self._start_later(host, self._rng.choice((0.0, 1.0, self._rng.uniform(*AWAY_SECONDS))))

    def crash_at_truncation(self) -> None:
        """The next member that truncates its log ends in the middle of that."""
        self.watch.on_truncate = self._crash_soon

    def _crash_soon(self, host: Host) -> None:
        steps, is_cut = self._rng.randint(1, 6), self._rng.random() < 0.5
        self.note(f"{host.name} truncates its log, and ends {steps} changes of files later")
        host.weather.crash, host.weather.steps_until_crash = host.cut_power if is_cut else host.kill, steps
        self.watch.on_truncate = lambda _: None
        # Not as a part of the process that ends.
        start = partial(self._start_later, host, self._rng.choice((0.5, 3.0)))
        self._cluster.loop.call_soon(self._begin, start, context=self._cluster.network.context)

    async def end_several(self) -> None:
        """The master and a slave, or all members, are killed, or lose power, at once; they start again one after the other."""
        is_cut = self._rng.random() < 0.5
        hosts = self._rng.choice((list(self.watch.hosts.values()), [self._master(), self._rng.choice(self._slaves())]))
        ended = [host for host in dict.fromkeys(hosts) if host.process is not None]
        self.note(f"{', '.join(host.name for host in ended)} {'lose power' if is_cut else 'are killed'}")
        for host in ended:
            if is_cut:
                host.cut_power()
            else:
                host.kill()
        await asyncio.gather(*(self._start_later(host, self._rng.uniform(0.1, 4)) for host in ended))

    async def stop_member(self) -> None:
        """A member is stopped gracefully, and started again."""
        host = self._member()
        if host.process is None or not host.is_wanted:
            return
        self.note(f"stop {host.name}")
        await host.stop()
        await self._start_later(host, self._rng.choice((0.1, 3.0)))

    async def pause_member(self) -> None:
        """A member stands still, for long enough that another one is promoted, or not."""
        host = self._member()
        process = host.process
        if process is None or process.is_paused:
            return
        seconds = self._rng.choice((0.5, 2.5, 5.0, 12.0))
        self.note(f"pause {host.name} for {seconds} s")
        process.pause()
        await asyncio.sleep(seconds)
        if not process.is_dead:
            process.resume()

    async def pause_at_step(self) -> None:
        """A member stands still in the middle of what a thread of it does with files: just before or after a sync."""
        host = self._member()
        if host.process is None or host.weather.steps_until_pause:
            return
        process, steps = host.process, self._rng.randint(1, 20)
        host.weather.pause, host.weather.steps_until_pause = process.pause, steps
        seconds = self._rng.choice((3.0, 12.0))
        self.note(f"pause {host.name} for {seconds} s {steps} changes of files later")
        await asyncio.sleep(1.0)
        host.weather.steps_until_pause = 0
        if process.is_paused:
            await asyncio.sleep(seconds)
        if not process.is_dead:
            process.resume()

    async def clock_strobe(self) -> None:
        """The wall clock of a server steps by half a minute to and fro. A delay node would deliver early, as documented."""
        host = self._rng.choice(
            [host for name, host in self._cluster.hosts.items() if name not in self._cluster.delays]
        )
        self.note(f"the clock of {host.name} steps to and fro")
        for _ in range(self._rng.randint(2, 8)):
            host.clock.offset_ms = self._rng.choice((-30_000, 30_000))
            await asyncio.sleep(self._rng.uniform(0.2, 1.0))
        host.clock.offset_ms = 0

    async def switch_over(self) -> None:
        """An operator has the master switch over to a slave."""
        membership = self.watch.membership
        host = self.watch.hosts.get(membership.master) if membership is not None else None
        if host is None or host.process is None or not isinstance(host.server, MemberNode):
            return
        self.note(f"switch-over of {host.name}")
        await asyncio.wait({host.process.start(_switch_over(host.server))}, timeout=SWITCH_OVER_SECONDS)


async def _switch_over(broker: MemberNode) -> None:
    with suppress(SwitchOverRejected, SwitchOverUnknown):
        await broker.replication.switch_over("")


FAULTS: dict[str, tuple[str, ...]] = {
    "kill": ("F32",),
    "kill_member": ("F1", "F2", "F3"),
    "end_several": ("F2",),
    "crash_at_step": ("F4",),
    "crash_at_truncation": ("F4",),
    "kill_client": ("F5",),
    "stop_member": ("F6",),
    "switch_over": ("F6",),
    "member_power_cut": ("F7",),
    "flipped_bit": ("F10",),
    "swapped_blocks": ("F12",),
    "missing_segment": ("F12",),
    "older_file": ("F12",),
    "older_folder": ("F12",),
    "new_disk": ("F12",),
    "full_disk": ("F13",),
    "failing_write": ("F14",),
    "failing_sync": ("F15",),
    "slow_syncs": ("F16",),
    "hanging_sync": ("F16",),
    "slow_disk": ("F16",),
    "slow_slave": ("F17",),
    **dict.fromkeys(SHAPES, ("F18",)),
    "cut": ("F18",),
    "cut_off": ("F18",),
    "flapping_cut": ("F19",),
    "slow_link": ("F20",),
    "narrow_link": ("F20",),
    "reset": ("F21",),
    "reset_on_arrival": ("F21",),
    "pause_member": ("F22", "F24"),
    "pause_at_step": ("F23",),
    "pause": ("F24",),
    "clock_step": ("F25",),
    "clock_strobe": ("F25",),
    "database_away": ("F28",),
    "lost_replies": ("F28",),
    "restored_database": ("F29",),
    "accepted_loss": (),
}
"""By name: the faults of the fault list that each is a form of; none: a decision of an operator."""
