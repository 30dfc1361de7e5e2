"""How a node registers with metaservers, and which policy it gets."""
