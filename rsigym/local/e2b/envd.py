"""The data plane of one sandbox."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from e2b.envd.filesystem.filesystem_connect import FilesystemASGIApplication
from e2b.envd.process.process_connect import ProcessASGIApplication
from starlette.types import Receive, Scope, Send

from rsigym.local.e2b.filesystem_service import FilesystemService
from rsigym.local.e2b.process_service import ProcessService

if TYPE_CHECKING:
    from rsigym.local.sandbox import Sandbox

__all__ = ["ENVD_VERSION", "RPC_PATHS", "Envd"]

ENVD_VERSION = "0.6.7"
"""What the SDK is told: all its features are on, and those that are not here say so."""

RPC_PATHS = ("/process.Process/", "/filesystem.Filesystem/")


class Envd:
    """What E2B runs inside a sandbox, here beside it.

    Attributes:
        sandbox: The sandbox itself.
        token: What a caller has to present.
    """

    def __init__(self, sandbox: "Sandbox", token: str, environment: Mapping[str, str]):
        self.sandbox, self.token = sandbox, token
        self._processes = ProcessService(sandbox, environment)
        self._filesystem = FilesystemService(sandbox)
        self._rpc = {
            "process": ProcessASGIApplication(self._processes, compressions=()),
            "filesystem": FilesystemASGIApplication(self._filesystem, compressions=()),
        }

    async def rpc(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a request to one of `RPC_PATHS`."""
        service = scope["path"].partition(".")[0].removeprefix("/")
        await self._rpc[service](scope, receive, send)

    async def pause(self) -> None:
        """Stops every process where it is."""
        self._processes.suspend()
        await self.sandbox.pause()

    async def resume(self) -> None:
        """Lets them go on."""
        await self.sandbox.resume()
        self._processes.resume()

    async def close(self, why: str) -> None:
        """Ends the sandbox, its processes and its files."""
        self._processes.close(why)
        await self._filesystem.close()
        await self.sandbox.close()
