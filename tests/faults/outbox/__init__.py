"""Programs of the outbox that are killed before and after each statement and each step on the network."""
