"""A member that follows: it copies and applies the commits of its master."""
