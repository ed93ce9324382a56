"""Decisions. Pure: no clock, randomness, lock, I/O, logging or HTTP library is known here."""
