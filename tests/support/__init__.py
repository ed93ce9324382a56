"""A scripted loopback server, answers in OpenAI's shapes, and one way to write a test for sync and async clients."""
