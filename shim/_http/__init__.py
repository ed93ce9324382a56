"""All that knows httpx2 and httpx. Neither is imported before a client of its kind has been seen."""
