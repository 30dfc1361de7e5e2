"""Numbers of pages: overview, lag, search, metrics."""
