"""Child processes that end with their parent, and their end: SIGTERM, a grace, SIGKILL to whatever they started."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def tied_to_parent(number: int = signal.SIGTERM, *, also: Callable[[], None] = lambda: None) -> Callable[[], None]:
    """A `preexec_fn` for a child that gets a signal when this process ends, however it ends. `also`: called in the child, too."""
    parent = os.getpid()
    prctl = ctypes.CDLL(None).prctl

    def before_exec() -> None:
        also()
        prctl(_PR_SET_PDEATHSIG, number)  # after a change of user, which would take it back
        if os.getppid() != parent:
            os._exit(1)  # the parent ended before the call

    return before_exec


def stop(process: "subprocess.Popen[bytes]", grace_seconds: float) -> None:
    """End a child that leads a session of its own, and return when it is gone; at once without a grace."""
    if process.poll() is not None:
        return
    if grace_seconds > 0:
        process.terminate()
    try:
        process.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
