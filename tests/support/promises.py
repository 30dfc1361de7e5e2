"""The failure of a test that saw the product break a promise."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum


class Check(StrEnum):
    """What a promise is checked by. A deliberate breakage names the one that must notice it."""

    OPENS = "a store opens after every crash"
    KEPT = "acknowledged data is kept"
    KNOWN = "nothing is stored that was never sent"
    CONTENT = "content is what was sent"
    MEANING = "a sequence always stands for the same message"
    ACKED = "an acked message does not return"
    DELIVERED = "an acknowledged message is delivered"
    CHECKPOINT = "a checkpoint counts on durable data only"
    WHOLE = "a log is not cut at damage"
    FAIL_STOP = "a failed log takes nothing more"
    STATES = "a decision on a delayed message stays"
    FILES = "the files of an hour agree with each other"
    TRUNCATED = "a truncated log ends where it should, whatever interrupted the truncation"
    APPLIED = "a slave's state is that of its log below the high watermark"
    COPIED = "a copy is the master's log up to some commit, at least up to what it confirmed"
    EPOCH = "an epoch is on disk before a commit has it, and never falls there"
    RESERVE = "acks go on when the disk is full"


class PromiseBroken(AssertionError):
    """A message was lost, made up, delivered twice or too early, an action was allowed that is forbidden, or an answer was a 500.

    Such a failure is never put down to a slow machine: `make test` does not rerun the test.
    """

    check: Check | None = None
    """Which check noticed it, where checks have names."""


@contextmanager
def judging(check: Check | None = None) -> Iterator[None]:
    """Turn a failed assertion inside the block, or inside a function it decorates, into a PromiseBroken of a check."""
    try:
        yield
    except PromiseBroken:
        raise
    except AssertionError as error:
        broken = PromiseBroken(str(error))
        broken.check = check
        raise broken from error


class CaughtBy:
    """A block with a deliberate breakage of the product: the named check has to notice it, and no other one may come first."""

    def __init__(self, check: Check) -> None:
        self._check = check

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if error is None:
            raise AssertionError(f"no check noticed the breakage; {self._check!r} must")
        if not isinstance(error, PromiseBroken):
            return False
        assert error.check is self._check, f"noticed by {error.check!r} and not by {self._check!r}: {error}"
        return True


def is_broken_promise(error: BaseException | None) -> bool:
    """Return whether an exception is a PromiseBroken, was caused by one, or is a group that contains one."""
    waiting = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, PromiseBroken):
            return True
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
    return False
