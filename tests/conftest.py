"""Which examples hypothesis tries: the same in every run, unless the command line asks for ``random``."""

from hypothesis import settings

# How long an example takes says how busy the machine is, so no example has a deadline.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("random", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("repeatable")
