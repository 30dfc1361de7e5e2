"""A script without asyncio: `python examples/plain_script.py` sends three messages and receives them with `qmq.sync`.

QMQ_META is the address of the metaserver; default: localhost:8080.
"""

import os
import sys

from qmq import QmqError
from qmq.sync import Consumer, Producer

SUBJECT = "example.greetings"
NAMES = ("Ada", "Grace", "Alan")


def main() -> None:
    """Send and receive."""
    url = os.environ.get("QMQ_META", "localhost:8080")
    with Producer(url, app="script") as producer:
        for name in NAMES:
            receipt = producer.send(SUBJECT, {"name": name})
            print(f"sent {receipt.message_id} to {receipt.broker_group}")
    received = 0
    with Consumer(url, SUBJECT, "script", app="script", start="earliest") as consumer:
        for delivery in consumer:
            with delivery:  # acknowledges at the end of the block; retries the message if the block raises
                print(f"hello {delivery.properties['name']}")
            received += 1
            if received == len(NAMES):
                break


if __name__ == "__main__":
    try:
        main()
    except QmqError as error:
        sys.exit(f"{error} (code {error.code})")
