"""class Peers: which other metaservers run, as their heartbeats in the database show. Pure, time handed in."""

from collections.abc import Mapping

from metaserver.live_groups import LEASE_SECONDS, PEER_EXPIRY_SECONDS


class Peers:
    """The other metaservers that store heartbeats. Clocks of different machines are never compared."""

    def __init__(self, now: float) -> None:
        self._heartbeats: dict[str, tuple[int, float | None]] = {}
        """By name: (when it last stored a heartbeat by its own clock, when that was last observed to change)."""
        self._observed_at = now
        self._has_live = False

    def observe(self, heartbeats: Mapping[str, int], now: float) -> None:
        """Take over the stored heartbeats, by name."""
        for name in self._heartbeats.keys() - heartbeats.keys():
            del self._heartbeats[name]
        for name, stored_at_us in heartbeats.items():
            last = self._heartbeats.get(name)
            if last is None:
                self._heartbeats[name] = (stored_at_us, None)
            elif last[0] != stored_at_us:
                self._heartbeats[name] = (stored_at_us, now)
        self._has_live = any(
            at is not None and now - at <= PEER_EXPIRY_SECONDS for _, at in self._heartbeats.values()
        )  # fmt: skip
        self._observed_at = now

    def are_out_of_sight(self, now: float) -> bool:
        """Whether a live peer may receive heartbeats of nodes that can't be read, because the database does not respond."""
        return self._has_live and now - self._observed_at > LEASE_SECONDS
