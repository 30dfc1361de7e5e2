"""Where subjects are: routes, and plans of a rebalance."""
