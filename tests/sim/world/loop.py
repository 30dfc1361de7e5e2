"""An event loop on virtual time, and the processes that run on it.

When nothing is ready to run, the clock moves to the next timer at once. Work for threads is done on the loop, after a delay drawn
from the seed. The same seed gives the same run: no clock, socket or thread of the machine is used.
"""

import asyncio
import collections
import contextlib
import contextvars
import gc
import hashlib
import heapq
import inspect
import logging
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tests.sim.world.network import Network

T = TypeVar("T")
Job = Callable[[], object]
Done = Callable[[Any, BaseException | None], None]

START_SECONDS = 1_000.0
"""Monotonic time at the start of each run."""
START_WALL_MS = 1_700_000_000_000
"""Wall time at the start of each run: 2023-11-14T22:13:20Z."""
CLOSES_MAX = 10
"""How often the coroutine of a killed task is closed until it ends."""
CLOCK_RESOLUTION = 1e-9
"""Timers that are due within this of each other fire together."""
TIMERS_MIN = 100
"""A heap of more timers is cleaned when most of them are cancelled."""
THREAD_SECONDS = 0.0005
"""Longest delay until a thread takes up a job."""


class Stuck(Exception):
    """Nothing is ready to run and no timer is set: whatever is awaited can't happen any more."""


class Process:
    """Code that is killed or paused as one: what it schedules runs only while it lives and is not paused.

    Args:
        host: the machine it runs on, as the network knows it.
    """

    def __init__(self, loop: "SimulatedLoop", host: str) -> None:
        self._loop = loop
        self.host = host
        self.is_dead = False
        self.is_paused = False
        self._held: list[asyncio.Handle] = []
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """Kept after a kill: a task that is collected would run its `finally` blocks."""
        self.context = contextvars.copy_context()
        self.context.run(_PROCESS.set, self)

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run a task as a part of this process."""
        return self.context.copy().run(self._loop.create_task, work)

    @property
    def tasks(self) -> int:
        """Tasks that have not ended."""
        return sum(not task.done() for task in self._tasks)

    def add(self, task: "asyncio.Task[Any]") -> None:
        """A task of this process was made."""
        self._tasks[task] = None
        task.add_done_callback(self._forget, context=_NO_PROCESS)

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        if not self.is_dead:
            self._tasks.pop(task, None)

    def kill(self) -> None:
        """No line of its code runs any more."""
        self.is_dead = True
        self._held.clear()
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            # They never end: the end of the loop must not wait for them.
            asyncio.tasks._unregister_task(task)
        self._loop.killed.append(self)

    def bury(self) -> None:
        """End the tasks that a kill left: their `finally` blocks run now, and not when a later test collects garbage."""
        for task in self._tasks:
            work = task.get_coro()
            assert inspect.iscoroutine(work)
            # One that awaits something in a `finally` block ignores the first close.
            for _ in range(CLOSES_MAX):
                if work.cr_frame is None:
                    break
                with contextlib.suppress(Exception):
                    work.close()
        self._tasks.clear()

    def pause(self) -> None:
        """Stand still, as after SIGSTOP: what would run is kept for `resume`."""
        self.is_paused = True

    def resume(self) -> None:
        """Go on; timers that are overdue fire at once."""
        self.is_paused = False
        held, self._held = self._held, []
        self._loop.requeue(held)

    def stall(self, seconds: float) -> None:
        """Stand still for so long, as a loop does that waits for a disk."""
        if not self.is_paused:
            self.pause()
            self._loop.call_later(seconds, self.resume, context=_NO_PROCESS)

    def may_run(self, handle: asyncio.Handle) -> bool:
        """Whether a handle is to run now; if the process is paused, it is kept."""
        if self.is_dead:
            return False
        if self.is_paused:
            self._held.append(handle)
            return False
        return True


_PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
_NO_PROCESS = contextvars.Context()
"""For what the world does by itself."""


def current_process() -> Process | None:
    """The process whose code runs; None for the code of the test."""
    return _PROCESS.get()


class _Handle(asyncio.Handle):
    __slots__ = ("process",)

    process: Process | None


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ("process",)

    process: Process | None


def _fill(
    handle: Any,
    callback: Callable[..., object],
    args: tuple[Any, ...],
    loop: "SimulatedLoop",
    context: contextvars.Context | None,
) -> None:
    """Do what asyncio's handles do when they are created, without debug mode: a run creates hundreds of thousands."""
    if context is None:
        context = contextvars.copy_context()
    handle._callback = callback
    handle._args = args
    handle._loop = loop
    handle._context = context
    handle._cancelled = False
    handle._repr = handle._source_traceback = None
    handle.process = context.get(_PROCESS)


class _Due(float):
    """When a timer fires: an entry of the heap of timers. Floats are compared without a call of Python."""

    __slots__ = ("timer",)

    timer: Any


def rng_of(seed: int, purpose: str) -> Random:
    """Return the generator that the run of a seed has for one purpose."""
    return Random(f"{seed} {purpose}")


class Lane:
    """A thread's work: one job after the other."""

    def __init__(self) -> None:
        self.jobs: collections.deque[tuple[Job, Done, contextvars.Context]] = collections.deque()
        self.is_busy = False


class SimulatedLoop(asyncio.base_events.BaseEventLoop):
    """The event loop of one run.

    Args:
        seed: decides every choice that is drawn.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        # Collections during the run look at the run's objects only, not at all that pytest and Django hold, and not at runs before.
        gc.collect()
        gc.freeze()
        self.seed = seed
        self.now = START_SECONDS
        self.wall_offset_ms = 0
        """How much later than START_WALL_MS the run begins."""
        self._ident = threading.get_ident()
        self._timers: list[_Due] = []
        """A heap."""
        self._cancelled_timers = 0
        """Of those in the heap."""
        self._rng = self.rng("threads")
        self._lanes: dict[Executor | None, Lane] = {}
        self._thread_seconds: float | None = None
        """What the job that runs now has waited for; None: no thread's job runs."""
        self._digest = hashlib.blake2b(digest_size=8)
        self.events = 0
        """Recorded events."""
        self.observe: Callable[[str], None] | None = None
        """Called with each recorded event, to find where two runs part."""
        self.killed: list[Process] = []
        self.at_close: list[Callable[[], object]] = []
        """Called when the loop closes."""
        self.errors: list[dict[str, Any]] = []
        """What reached the loop's exception handler."""
        self.set_exception_handler(lambda _, context: self.errors.append(context))
        self.set_task_factory(_make_task)

    @property
    def true_wall_ms(self) -> int:
        """The true wall clock."""
        return START_WALL_MS + self.wall_offset_ms + round((self.now - START_SECONDS) * 1000)

    def rng(self, purpose: str) -> Random:
        """A generator of its own for one purpose, so that a draw more in one does not change all others."""
        return rng_of(self.seed, purpose)

    def record(self, *what: object) -> None:
        """Add an event to the digest of the run."""
        self.events += 1
        line = f"{self.now:.7f} {what}"
        self._digest.update(line.encode())
        if self.observe is not None:
            self.observe(line)

    @property
    def digest(self) -> str:
        """Equal for two runs with the same events."""
        return self._digest.hexdigest()

    # --- time ------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        """Move the clock to the next timer if nothing is ready, then run what is ready, as asyncio's loop does."""
        ready = self._ready  # type: ignore[attr-defined]
        timers = self._timers
        if len(timers) > TIMERS_MIN and self._cancelled_timers * 2 > len(timers):
            self._drop_cancelled()
        while timers and timers[0].timer._cancelled:
            heapq.heappop(timers).timer._scheduled = False
            self._cancelled_timers -= 1
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise Stuck(f"nothing can happen any more at {self.now:.3f} s")
            self.now = max(self.now, float(timers[0]))
        end = self.now + CLOCK_RESOLUTION
        while timers and timers[0] < end:
            timer = heapq.heappop(timers).timer
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            process = handle.process
            if not handle._cancelled and (process is None or process.may_run(handle)):
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - reported as asyncio's loop does
                    message = f"Exception in callback {handle!r}"
                    self.call_exception_handler({"message": message, "exception": error, "handle": handle})

    def _drop_cancelled(self) -> None:
        kept = []
        for due in self._timers:
            if due.timer._cancelled:
                due.timer._scheduled = False
            else:
                kept.append(due)
        heapq.heapify(kept)
        self._timers[:] = kept
        self._cancelled_timers = 0

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if handle._scheduled:  # type: ignore[attr-defined]
            self._cancelled_timers += 1

    def _write_to_self(self) -> None:
        pass

    def _call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.Handle:
        handle = _Handle.__new__(_Handle)
        _fill(handle, callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        self._check_closed()  # type: ignore[attr-defined]
        return self._call_soon(callback, args, context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]
        timer = _TimerHandle.__new__(_TimerHandle)
        _fill(timer, callback, args, self, context)
        timer._when = when  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        due = _Due(when)
        due.timer = timer
        heapq.heappush(self._timers, due)
        return timer

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def requeue(self, handles: list[asyncio.Handle]) -> None:
        """Run these soon, in this order."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    # --- threads ---------------------------------------------------------------------------------------------------

    @property
    def is_in_thread(self) -> bool:
        """Whether the code that runs is a thread's job, which may wait for a disk."""
        return self._thread_seconds is not None or threading.get_ident() != self._ident

    def block(self, seconds: float) -> None:
        """The code that runs waits for so long: a job's thread for itself, any other code with the whole process."""
        if self._thread_seconds is not None:
            self._thread_seconds += seconds
        elif (process := current_process()) is not None:
            process.stall(seconds)

    def run_in_lane(self, lane: Lane, job: Job, done: Done) -> None:
        """Do a job when the lane is free, then call `done` with its result or error; both as the current process."""
        lane.jobs.append((job, done, contextvars.copy_context()))
        if not lane.is_busy:
            self._begin_job(lane)

    def _begin_job(self, lane: Lane) -> None:
        job, done, context = lane.jobs.popleft()
        lane.is_busy = True
        self.call_later(self._rng.random() * THREAD_SECONDS, self._do, lane, job, done, context=context)

    def _do(self, lane: Lane, job: Job, done: Done) -> None:
        result: object = None
        error: BaseException | None = None
        self._thread_seconds = 0.0
        try:
            result = job()
        except BaseException as raised:  # noqa: BLE001 - handed to the one that waits
            error = raised
        finally:
            seconds, self._thread_seconds = self._thread_seconds, None
        self.call_later(seconds, self._end_job, lane, done, result, error)

    def _end_job(self, lane: Lane, done: Done, result: object, error: BaseException | None) -> None:
        lane.is_busy = False
        if lane.jobs:
            self._begin_job(lane)
        done(result, error)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        future: asyncio.Future[T] = self.create_future()
        # Executors with more than one thread, and the default one: as many threads as there are jobs.
        is_alone = getattr(executor, "_max_workers", 0) == 1
        lane = self._lanes.setdefault(executor, Lane()) if is_alone else Lane()

        def job() -> T | None:
            return None if future.cancelled() else func(*args)

        def done(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.run_in_lane(lane, job, done)
        return future

    # --- end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close, and drop what killed processes left behind without a log line: their `finally` blocks mean nothing any more."""
        if self.is_closed():
            return
        super().close()
        self._timers.clear()
        for release in self.at_close:
            release()
        self.at_close.clear()
        self._bury_killed()

    def _bury_killed(self) -> None:
        if not self.killed:
            return
        self.set_exception_handler(lambda *_: None)
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        disabled = logging.root.manager.disable
        logging.disable()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # coroutines that were never awaited
                for process in self.killed:
                    process.bury()
                self.killed.clear()
                gc.collect()
        finally:
            logging.disable(disabled)
            sys.unraisablehook = hook

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass

    # --- network ---------------------------------------------------------------------------------------------------

    network: "Network"
    """Set by the network."""

    def remove_reader(self, fd: Any) -> bool:
        """Connections are accepted until their server is closed, and each gets its protocol in the same turn."""
        return False

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return self.network.serve(str(host), int(port or 0), lambda peer: protocol_factory())

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return await self.network.connect(protocol_factory, str(host), int(port))

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:  # type: ignore[override]
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]


def _make_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], **options: Any) -> "asyncio.Task[T]":
    task = asyncio.Task(work, loop=loop, **options)
    context = options.get("context")
    process = context.get(_PROCESS) if context is not None else _PROCESS.get()
    if process is not None:
        process.add(task)
    return task


class SimulatedThread:
    """In the place of `qmq_node.process.job_thread.OsThread`."""

    def __init__(self, name: str, on_failure: Callable[[BaseException], None]) -> None:
        self._loop = running_loop()
        self._on_failure = on_failure
        self._lane = Lane()
        self._jobs: collections.deque[tuple[Callable[[], object], Callable[[], object] | None]] = collections.deque()
        self._is_busy = False
        self._has_failed = False
        self._idle: asyncio.Future[None] | None = None

    def put(self, job: Callable[[], object], done: Callable[[], object] | None = None) -> None:
        self._jobs.append((job, done))
        self._next()

    def _next(self) -> None:
        if self._is_busy:
            return
        if not self._jobs or self._has_failed:
            if self._idle is not None and not self._idle.done():
                self._idle.set_result(None)
            return
        self._is_busy = True
        job, done = self._jobs.popleft()

        def ended(_: object, error: BaseException | None) -> None:
            self._is_busy = False
            if error is not None:
                self._has_failed = True
                self._on_failure(error)
            elif done is not None:
                done()
            self._next()

        self._loop.run_in_lane(self._lane, job, ended)

    async def stop(self) -> None:
        if (self._is_busy or self._jobs) and not self._has_failed:
            self._idle = self._loop.create_future()
            await self._idle


def running_loop() -> SimulatedLoop:
    """The simulated loop whose code runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop), "this runs in virtual time only: move the test below tests/sim"
    return loop


class SimulatedClock:
    """A process's clocks: virtual time, the wall clock set wrong by `offset_ms`."""

    def __init__(self, loop: SimulatedLoop, offset_ms: int = 0) -> None:
        self._loop = loop
        self.offset_ms = offset_ms

    def monotonic(self) -> float:
        return self._loop.now

    def wall_ms(self) -> int:
        return self._loop.true_wall_ms + self.offset_ms
