"""All that knows httpx2 and httpx."""
