"""Seeds of runs that found a fault of the product. Each is run by every `make test`."""

REGRESSIONS: dict[int, str] = {
    8: "a broker never moved messages to a retry subject whose record left less than the reserve in an empty segment",
    36: "the messages moved in one record were counted without their checksums, so that it did not fit a segment",
    628: "a delay node that was killed while it did not accept its clock's step accepted it when it came back, and delivered early",
    1374: "a node whose log failed while it stopped waited for its last checkpoint for ever, and was never started again",
    2077: "a metaserver did not see what a restored database changed, once it had as many changes again as were lost",
}
"""Seed -> the fault. A seed's run changes with the simulation; the fault has a test of its own as well."""
