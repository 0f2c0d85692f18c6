"""What holds for every test."""

from hypothesis import settings

# How long an example takes depends on what else the machine does.
settings.register_profile("rsigym", deadline=None)
settings.load_profile("rsigym")
