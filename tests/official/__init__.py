"""What runs openai-python's own test suite against our classes; see docs/official_suite.md."""
