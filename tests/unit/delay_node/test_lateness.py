"""The lateness of the last minute."""

from delay_node.metrics import SLOT_SECONDS, SLOTS, LatenessWindow

BUCKETS = (0.01, 0.1, 1.0)


def test_a_quantile_is_the_end_of_its_bucket_and_none_without_deliveries() -> None:
    window = LatenessWindow(BUCKETS)
    window.tick(1000.0)
    assert window.quantile(0.99) is None
    for _ in range(98):
        window.observe(0.005)
    window.observe(0.1)
    window.observe(7.0)
    assert (window.quantile(0.5), window.quantile(0.99), window.quantile(1.0)) == (0.01, 0.1, 1.0)


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    window = LatenessWindow(BUCKETS)
    window.tick(1000.0)
    window.observe(0.5)
    window.tick(1000.0 + SLOT_SECONDS * (SLOTS - 1))
    window.observe(0.005)
    assert window.quantile(1.0) == 1.0
    window.tick(1000.0 + SLOT_SECONDS * SLOTS)
    assert window.quantile(1.0) == 0.01
    window.tick(1000.0 + SLOT_SECONDS * SLOTS * 3)
    assert window.quantile(1.0) is None
