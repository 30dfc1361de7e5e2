"""A shop whose books have to balance although its processes are killed: `make demo-orders`."""
