"""The live numbers: their shapes, and how they are stored in Redis."""
