"""What a broker keeps, in memory and on disk. It knows no client."""
