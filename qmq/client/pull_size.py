"""How many messages a pull requests. Pure.

A response should hold about `Limits.pull_bytes`: our brokers limit the bytes of a response, but the official server does not, and
100 large messages are a response of hundreds of MiB. And it should hold at most the messages that the application processes in a
second, so that a slow one leaves messages to the other consumers of its group; a fast one waits for few responses.
"""

MESSAGES_FIRST = 100
"""What the first pull requests, and at least what a slow application gets."""
SLOW_SECONDS = 1.0
"""An application that takes longer for the messages of a response is slow."""


class PullSize:
    """The number of messages to request, from the responses so far.

    Args:
        messages_max: the most to request.
        bytes_target: what a response should hold.
    """

    def __init__(self, messages_max: int, bytes_target: int) -> None:
        self._messages_max = messages_max
        self._messages_min = min(MESSAGES_FIRST, messages_max)
        self._bytes_target = bytes_target
        self.messages = self._messages_min

    def received(self, messages: int, size: int, *, was_awaited: bool) -> None:
        """A response arrived: request what fits the target at its average size. If the application waited for a response that has
        all that was requested, request twice as many as before.

        Args:
            messages, size: of the response, in messages and bytes.
            was_awaited: the application had nothing else to process.
        """
        fitting = max(1, self._bytes_target * messages // max(1, size))
        wanted = self.messages
        if was_awaited and messages >= self.messages:
            wanted *= 2
        elif self.messages < self._messages_min:  # after large messages
            wanted = min(self._messages_min, 2 * wanted)
        self.messages = min(self._messages_max, fitting, wanted)

    def waited(self, seconds: float) -> None:
        """The next pull waited this long for the application to process enough messages: request half if it is slow."""
        if seconds > SLOW_SECONDS:
            self.messages = max(min(self.messages, self._messages_min), self.messages // 2)

    def found_nothing(self) -> None:
        """There was no message: start again with a small pull, because the application may be slower when there are some."""
        self.messages = min(self.messages, self._messages_min)

    def failed(self, requested: int) -> None:
        """The response to a pull for `requested` messages was too large, or did not arrive in time: request half."""
        self.messages = max(1, requested // 2)
