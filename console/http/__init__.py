"""HTTP before any page: which requests are admitted, at which rate, with which headers."""
