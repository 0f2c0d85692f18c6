"""Properties are checked without a deadline: how long one takes depends on the machine."""

from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
