"""Programs that decide a trial: copied into tasks, run in their sandboxes, never imported here."""

__all__: list[str] = []
