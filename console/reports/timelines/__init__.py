"""Numbers over up to 30 days: the last hour as the collector measured it, and before it summaries."""
