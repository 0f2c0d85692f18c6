"""Bodies of several files, in whatever pieces they arrive."""

import asyncio
from collections.abc import AsyncIterator

from hypothesis import given, settings
from hypothesis import strategies as st

from rsigym.local.e2b.multipart import parts

_FILES = st.lists(
    st.tuples(st.from_regex(r"[a-z/]{1,20}", fullmatch=True), st.binary()), max_size=4
)


@settings(deadline=None)
@given(_FILES.filter(bool), st.integers(1, 50))
def test_the_pieces_of_a_body_do_not_matter(files: list[tuple[str, bytes]], size: int) -> None:
    body = b"".join(
        f'--=b=\r\nContent-Disposition: form-data; name="f"; filename="{name}"\r\n\r\n'.encode()
        + content
        + b"\r\n"
        for name, content in files
    )
    body += b"--=b=--\r\n"

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    async def read() -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []
        async for kind, data in parts('multipart/form-data; boundary="=b="', pieces()):
            if kind == "file":
                found.append((data.decode(), b""))
            elif kind == "data":
                found[-1] = (found[-1][0], found[-1][1] + data)
        return found

    if not any(b"\r\n--=b=" in content for _, content in files):
        assert asyncio.run(read()) == files
