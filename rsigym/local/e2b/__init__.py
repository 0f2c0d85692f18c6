"""An E2B-compatible server on this machine: the sandbox runtime behind the real SDK's two wires.

`process` starts it as a child, `server` tells the planes apart. The control plane (`control`)
makes, pauses and ends sandboxes, which `sandboxes` keeps; `envd` is the data plane of one sandbox:
`process_service`, `filesystem_service` and `file_routes`.
"""
