"""Runs a call: the board of shared health, the bus, the drivers, the system clock."""
