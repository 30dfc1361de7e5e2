"""What middleware sees of a producer's messages: class ObservedSends."""

from collections.abc import Awaitable, Sequence

from qmq.client.bodies import Body
from qmq.client.encoder import Encoder
from qmq.client.middleware import MiddlewareChain, OutgoingMessage
from qmq.client.outgoing import Outcome, Token, hand_out
from qmq.client.receipt import Receipt
from qmq.errors import QmqError, SendFailed


class ObservedSends:
    """Encodes messages, and calls the middleware of a producer around it and with the outcomes."""

    def __init__(self, encoder: Encoder, chain: MiddlewareChain) -> None:
        self._encoder = encoder
        self._chain = chain

    def encode(
        self, subject: str, body: Body, tags: Sequence[str], message_id: str | None, due_ms: int | None = None
    ) -> tuple[str, bytes, OutgoingMessage | None]:
        """Return a message's ID and entry, and, if there is middleware, the message: its outcome must be reported."""
        chain = self._chain
        if due_ms is None and not chain:
            message_id, entry = self._encoder.encode(subject, body, tags, message_id)
            return message_id, entry, None
        message = self._encoder.message(subject, body, tags, message_id, due_ms)
        chain.before_send(message)
        try:
            entry = self._encoder.encode_message(message)
        except QmqError as error:
            self.failed(message, error)
            raise
        return message.message_id, entry, message if chain else None

    def settled(self, message: OutgoingMessage, outcome: Outcome) -> None:
        """Give middleware the outcome of a message."""
        self._chain.after_send(message, outcome)

    async def observe(self, message: OutgoingMessage, sending: Awaitable[Receipt]) -> Receipt:
        """Wait for the outcome of a message, and give it to middleware."""
        outcome: Outcome = SendFailed("the caller was cancelled; the message may be stored")
        try:
            outcome = receipt = await sending
        except SendFailed as error:
            outcome = error
            raise
        finally:
            self._chain.after_send(message, outcome)
        return receipt

    def observed(self, message: OutgoingMessage, token: Token, outcome: Outcome) -> None:
        """As `settled`, and pass the outcome to the caller."""
        self._chain.after_send(message, outcome)
        hand_out(token, outcome)

    def failed(self, message: OutgoingMessage | None, error: QmqError) -> None:
        """Give middleware the error of a message that was not queued."""
        if message is not None:
            if not isinstance(error, SendFailed):
                error = SendFailed(str(error), code=error.code, retriable=error.retriable)
            self._chain.after_send(message, error)
