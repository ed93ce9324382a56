"""Speed and size against the official client. One: `python -m benchmarks.<name>`; all: `python -m benchmarks.run`."""
