"""Rates of clients."""

import pytest

from broker_node.storage.rates import DECAY_SECONDS, DecayingRate


def test_a_decaying_rate_is_unknown_at_first_exact_while_steady_and_falls_to_zero() -> None:
    rate = DecayingRate(0.0)
    rate.add(5, 0.5)
    assert rate.per_second(0.9) is None
    rate = DecayingRate(0.0)
    for tenth in range(1, 601):
        rate.add(2, tenth / 10)
    assert rate.per_second(60.0) == pytest.approx(20, rel=0.01)
    assert rate.per_second(60.0 + DECAY_SECONDS) == pytest.approx(20 * 0.3935, rel=0.2)
    assert rate.per_second(60.0 + 30 * DECAY_SECONDS) == 0.0
