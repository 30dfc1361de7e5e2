"""Live numbers: one collector asks the nodes and publishes what changed; web processes hand it on to websockets."""
