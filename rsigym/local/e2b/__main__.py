"""The child process behind `rsigym.local.e2b.process`: `python -m rsigym.local.e2b`.

Reads one line of JSON settings from standard input, answers with its URL on standard output, and
serves until standard input is closed; then it ends its sandboxes.
"""

from rsigym.local.server_child import announce, open_listener, read_settings, when_parent_ends


def main() -> None:
    import uvicorn

    from rsigym.local.e2b.server import E2BApp
    from rsigym.local.e2b.settings import Settings

    about = read_settings()
    api_key, parent = about.pop("api_key"), about.pop("parent")
    settings = Settings(**about)
    listener = open_listener(settings.port)
    config = uvicorn.Config(
        E2BApp(settings, api_key),
        loop="uvloop",
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
        # The SDK keeps idle connections for 300 s and fails when one closes under it.
        timeout_keep_alive=600,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)

    def end() -> None:
        server.should_exit = True

    when_parent_ends(parent, end)
    announce(listener)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
