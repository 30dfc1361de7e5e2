"""Pages and files made from the code."""
