"""A Tinker-compatible server on this machine: a torch engine behind the real SDK's wire.

`process` starts it as a child, `server` and `routes` speak HTTP, `engine` does the work. Only the
child imports torch.
"""
