"""A node whose broker group has several members, and its role in it."""
