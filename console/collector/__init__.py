"""What makes the live numbers."""
