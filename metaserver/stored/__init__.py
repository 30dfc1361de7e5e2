"""What is kept: in the database, and in a file of routes for starts without it."""
