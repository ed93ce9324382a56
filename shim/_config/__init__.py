"""Turns what is written into the schema of `shim.config`: presets, `${VAR}`, short forms, checks, error lines."""
