"""Load with a history, and what tests of faults share."""
