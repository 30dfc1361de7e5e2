"""Bytes with random changes."""

import random


def mutated(rng: random.Random, data: bytes) -> bytes:
    """A known body with a few bytes changed, cut, doubled, or lengths made extreme."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        choice = rng.random()
        at = rng.randrange(len(found) + 1)
        if choice < 0.4 and found:
            found[at % len(found)] = rng.randrange(256)
        elif choice < 0.6:
            del found[at : at + rng.randint(1, 20)]
        elif choice < 0.8:
            found[at:at] = rng.choice(
                (b"\x7f\xff\xff\xff", b"\xff\xff", b"\x80\x00\x00\x00", b"\x00" * 8, bytes(found[:16]))
            )
        else:
            found[at : at + 4] = rng.randbytes(4)
    return bytes(found[:2048])
