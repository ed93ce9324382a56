"""Shim in a notebook: a live panel, magics, and async code that can be stopped.

%load_ext notebook_ext
"""
