"""The routes under /api/v1, one module for each thing a client does."""
