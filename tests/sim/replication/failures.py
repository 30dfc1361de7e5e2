"""How a node fails."""

from tests.sim.world.cluster import Host

FAILURES = ["killed", "hangs", "without power"]


def fail(host: Host, failure: str) -> None:
    """Let a node fail. One that hangs accepts connections and answers nothing; one without power answers no packet."""
    if failure == "killed":
        host.kill()
    elif failure == "hangs":
        assert host.process is not None
        host.process.pause()
    else:
        host.cut_power()


def address_of(host: Host) -> str:
    return f"127.0.0.1:{host.port}"
