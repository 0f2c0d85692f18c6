"""Choosing an isolation, on machines that this one plays."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rsigym.local.sandbox import choose_isolation
from rsigym.local.sandbox.bubblewrap import find_bubblewrap
from rsigym.local.sandbox.host import as_user
from rsigym.local.sandbox.report import describe_isolation
from rsigym.platform.errors import OperatorError


@pytest.fixture
def programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder in which programs are found; empty at first."""
    programs = folder / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    find_bubblewrap.cache_clear()
    yield programs
    find_bubblewrap.cache_clear()


def _forbidden_bubblewrap(programs: Path) -> None:
    """Plays a bubblewrap on a kernel that gives it no user namespace."""
    script = '#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit\n'
    script += 'echo "bwrap: No permissions to create new namespace" >&2; exit 1\n'
    (programs / "bwrap").write_text(script)
    (programs / "bwrap").chmod(0o755)


@pytest.mark.usefixtures("programs")
def test_a_missing_bubblewrap_is_one_sentence_with_the_remedy():
    with pytest.raises(OperatorError, match=r"apt install bubblewrap.*--sandbox process") as raised:
        choose_isolation("bubblewrap")
    assert "\n" not in str(raised.value)


def test_a_forbidden_bubblewrap_says_what_it_said(programs: Path):
    _forbidden_bubblewrap(programs)
    with pytest.raises(OperatorError, match=r"No permissions.*allow user namespaces") as raised:
        choose_isolation("bubblewrap")
    assert "\n" not in str(raised.value)


def test_root_without_setpriv_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "defpath", "/nowhere")
    assert as_user(None) == []
    with pytest.raises(OperatorError, match=r"setpriv is missing.*apt install util-linux"):
        as_user(65000)


def test_auto_falls_back_and_the_report_says_why(programs: Path):
    _forbidden_bubblewrap(programs)
    assert choose_isolation("auto") == "process"
    report = describe_isolation()
    assert report["isolation"] == "process"
    assert report["bubblewrap"] is None
    assert "No permissions" in report["reason"]


def test_process_is_never_refused(programs: Path):
    assert choose_isolation("process") == "process"


def test_auto_is_bubblewrap_where_it_works(bubblewrap: str):
    assert choose_isolation("auto") == bubblewrap == "bubblewrap"
