"""What runs inside a sandbox: the supervisor and the code that both ends of its channel share.

It is packed into one archive and run by whatever Python 3.10 or later the sandbox has, so it uses
the standard library only, imports little (each sandbox pays for it: what only some requests need
is imported with the first of them) and imports relatively (it is `inside` there and
`rsigym.local.sandbox.inside` here).
"""
