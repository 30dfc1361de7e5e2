"""People, browsers and sockets of the console."""
