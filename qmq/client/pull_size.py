"""How many messages a pull asks for, so that its answer holds about `Limits.pull_bytes`. Pure.

Our brokers bound the bytes of an answer. The official server does not: 100 large messages are an answer of hundreds of MiB.
"""


class PullSize:
    """The number of messages to ask for, from the sizes of the answers so far.

    Args:
        messages_max: the most to ask for, and what the first pull asks for.
        bytes_target: what an answer should hold.
    """

    def __init__(self, messages_max: int, bytes_target: int) -> None:
        self._messages_max = messages_max
        self._bytes_target = bytes_target
        self.messages = messages_max

    def received(self, messages: int, size: int) -> None:
        """An answer arrived: ask for what fits the target at its average size, and for at most twice as many as before."""
        fitting = max(1, self._bytes_target * messages // max(1, size))
        self.messages = min(self._messages_max, fitting, 2 * self.messages)

    def failed(self, requested: int) -> None:
        """The answer to a pull for `requested` messages was too large, or did not arrive in time: ask for half."""
        self.messages = max(1, requested // 2)
