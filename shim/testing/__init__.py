"""A kit for tests that must run offline: cassettes of real answers, scripted providers, and faults on demand."""
