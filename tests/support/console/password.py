"""The password of everybody whom tests make; by itself, for those who may not import Django."""

PASSWORD = "seven-green-bottles"
