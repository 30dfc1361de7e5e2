"""Up to where two logs are equal, by the epochs of their commits."""

import pytest

from qmq_node.log.epochs import EpochChain


def test_equal_logs_are_equal_up_to_the_end_of_the_shorter_one() -> None:
    chain = EpochChain.of([(1, 0), (3, 500)])
    assert chain.common_end(900, chain, 700) == chain.common_end(700, chain, 900) == 700


def test_what_only_the_old_master_wrote_is_not_common() -> None:
    old, new = EpochChain.of([(1, 0)]), EpochChain.of([(1, 0), (2, 500)])
    assert old.common_end(800, new, 1000) == 500
    assert new.common_end(1000, old, 800) == 500


def test_the_unused_rest_of_a_segment_is_not_common() -> None:
    # The first commit of epoch 2 did not fit behind 500 and stands in the next segment, at 1024.
    new = EpochChain.of([(1, 0)]).with_commit(2, 500)
    assert EpochChain.of([(1, 0)]).common_end(800, new, 2000) == 500


def test_logs_that_diverged_twice_are_equal_up_to_the_newest_common_epoch() -> None:
    one, other = EpochChain.of([(1, 0), (2, 300), (4, 600)]), EpochChain.of([(1, 0), (2, 300), (3, 450), (5, 700)])
    assert one.common_end(900, other, 900) == 450


def test_logs_without_a_common_epoch_have_nothing_in_common() -> None:
    assert EpochChain().common_end(0, EpochChain.of([(1, 0)]), 100) is None
    assert EpochChain.of([(1, 0)]).common_end(100, EpochChain.of([(2, 0)]), 100) is None


def test_a_truncated_log_keeps_the_epochs_that_have_a_commit_left() -> None:
    chain = EpochChain.of([(1, 0), (2, 300)])
    assert chain.truncated(301) == chain
    assert chain.truncated(300) == EpochChain.of([(1, 0)])
    assert chain.truncated(0) == EpochChain()
    assert (EpochChain().last_epoch, chain.last_epoch) == (0, 2)


def test_a_further_commit_of_an_epoch_changes_nothing() -> None:
    chain = EpochChain().with_commit(1, 0)
    assert chain.with_commit(1, 64) is chain


@pytest.mark.parametrize(("epoch", "previous_end"), [(1, 400), (3, 300), (3, 200)])
def test_epochs_and_places_rise(epoch: int, previous_end: int) -> None:
    with pytest.raises(ValueError, match=f"epoch {epoch} from {previous_end} on follows 2 from 300 on"):
        EpochChain.of([(1, 0), (2, 300)]).with_commit(epoch, previous_end)
