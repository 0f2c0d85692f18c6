"""The supervisor's archive."""

import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from rsigym.local.sandbox.archive import supervisor_archive
from rsigym.local.sandbox.interpreter import Interpreter, choose_interpreter
from rsigym.platform.errors import OperatorError


def test_it_holds_compiled_code_only_and_leaves_none_beside_the_sources():
    inside = Path(sys.modules[supervisor_archive.__module__].__file__ or "").parent / "inside"
    before = sorted(inside.rglob("*"))
    supervisor_archive.cache_clear()
    archive = zipfile.ZipFile(BytesIO(supervisor_archive(choose_interpreter(None))))
    assert sorted(inside.rglob("*")) == before
    expected = {f"inside/{source.name}c" for source in inside.glob("*.py")}
    assert set(archive.namelist()) == expected | {"__main__.pyc"}
    assert not any(str(inside).encode() in archive.read(name) for name in archive.namelist())


def test_an_interpreter_that_cannot_compile_it_is_one_sentence(tmp_path: Path):
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\necho 'no module named zipfile' >&2; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(OperatorError, match=r"no module named zipfile.*install"):
        supervisor_archive(Interpreter(broken, None))
