"""The subcommands of `rsigym`, one module each: `add_to` declares it, and it does the work.

What is slow to import is imported by the work, so that `--help` answers at once.
"""
