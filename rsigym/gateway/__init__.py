"""Doors into the platform over HTTP."""
