"""What routing needs, in memory: nodes, broker groups, routes, policies, and how operators see members."""
