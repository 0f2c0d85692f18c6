"""What is done in a sandbox through the SDK: commands and files, and what their failures mean."""

import codecs
import secrets
import shlex
from typing import TYPE_CHECKING

from rsigym.operations.json_value import Json
from rsigym.operations.sandbox import SandboxRead, SandboxRun, SandboxWrite
from rsigym.platform.errors import BadCall, TimedOut
from rsigym.platform.service import Evidence
from rsigym.services.pieces import piece_told
from rsigym.services.sandbox_output import Kept

if TYPE_CHECKING:
    from e2b import AsyncSandbox

__all__ = ["read", "run", "write"]


async def run(box: "AsyncSandbox", call: SandboxRun) -> Evidence:
    """Run a command to its end.

    Raises:
        TimedOut: It took longer than it may and was killed; what it printed is in the details.
    """
    from e2b import CommandExitException, TimeoutException

    stdout, stderr = Kept(), Kept()
    try:
        result = await box.commands.run(
            call.command,
            envs=call.env,
            cwd=call.cwd,
            timeout=call.timeout_s,
            on_stdout=stdout.add,
            on_stderr=stderr.add,
            retain_output=False,
        )
    except CommandExitException as exited:
        result = exited
    except TimeoutException as error:
        if type(error) is not TimeoutException:
            raise
        raise TimedOut(
            f"the command was killed: it ran for longer than {call.timeout_s:g} s",
            side="sandbox",
            **_printed(stdout, stderr),
        ) from error
    return {"exit_code": result.exit_code, **_printed(stdout, stderr)}


async def read(box: "AsyncSandbox", call: SandboxRead) -> Evidence:
    """So many characters from an offset. Memory stays bounded whatever the size of the file."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    skip, page = call.offset, ""
    try:
        async with await box.files.read(call.path, format="stream") as pieces:
            async for piece in pieces:
                text = decoder.decode(piece)
                page += text[skip:]
                skip = max(0, skip - len(text))
                if len(page) > call.limit:
                    break
            else:
                decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise BadCall(
            f"{call.path!r} is not UTF-8 text: print it with sandbox.run and base64"
        ) from error
    return piece_told(page[: call.limit], call.offset, more=len(page) > call.limit)


async def write(box: "AsyncSandbox", call: SandboxWrite) -> Evidence:
    """Replace a file, or add to its end."""
    data = call.content.encode()
    if not call.append:
        written = await box.files.write(call.path, data)
        return {"path": written.path, "bytes": len(data)}
    await _append(box, call.path, data)
    return {"path": call.path, "bytes": len(data)}


async def _append(box: "AsyncSandbox", path: str, data: bytes) -> None:
    """E2B can only replace files, so the sandbox puts the new end behind the old one itself."""
    from e2b import CommandExitException

    part = f"/tmp/.append-{secrets.token_hex(8)}"
    await box.files.write(part, data)
    target = shlex.quote(path)
    try:
        await box.commands.run(
            f'mkdir -p -- "$(dirname -- {target})" && cat {part} >> {target}; '
            f"code=$?; rm -f {part}; exit $code"
        )
    except CommandExitException as error:
        raise BadCall(f"{path!r} cannot be written: {error.stderr.strip()}") from error


def _printed(stdout: Kept, stderr: Kept) -> dict[str, Json]:
    """Both streams; `cut` counts the characters that were left out of each, where any were."""
    (out, out_cut), (err, err_cut) = stdout.text(), stderr.text()
    cut: dict[str, Json] = {}
    if out_cut or err_cut:
        cut["cut"] = {"stdout": out_cut, "stderr": err_cut}
    return {"stdout": out, "stderr": err, **cut}
