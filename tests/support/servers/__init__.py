"""Real processes: databases, Redis, nodes, whole systems."""
