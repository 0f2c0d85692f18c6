"""Templates: what a sandbox sees of one, where they come from, and how archives are unpacked."""

import asyncio
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from rsigym.local.sandbox import BASE, Isolation, Sandbox, Template, Templates
from rsigym.local.sandbox.unpack import unpack
from rsigym.platform.errors import BadCall, OperatorError
from tests.local.sandbox.root_file_system import make_root
from tests.local.sandbox.support import on_loop, output


@pytest.fixture(scope="session")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `small` (without Python) and `python`, and each as an archive."""
    made = tmp_path_factory.mktemp("roots")
    if not Path("/usr/bin/python3").exists() or shutil.which("ldd") is None:
        pytest.skip("there is no system Python to make a root file system from")
    for name in ("small", "python"):
        root = make_root(made / name, python=name == "python")
        subprocess.run(["tar", "-C", root, "-cf", made / f"{name}.tar", "."], check=True)
    return made


@pytest.fixture(autouse=True)
def open_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that sandboxes' user may enter, so that templates are unpacked in it."""
    monkeypatch.setenv("RSIGYM_HOME", str(folder / "home"))


@pytest.mark.parametrize("name", ["small", "python"])
@on_loop
async def test_a_sandbox_has_the_templates_system_and_its_first_files(
    folder: Path, bubblewrap: Isolation, roots: Path, name: str
):
    template = await Templates({"t": roots / f"{name}.tar"}).get("t")
    async with Sandbox(folder / "a", isolation=bubblewrap, template=template) as sandbox:
        assert await output(sandbox, "cat /etc/os-release") == "NAME=Small"
        assert await output(sandbox, "cat given.txt link /usr/bin/tool") == (
            "given\nof the template\nof the template"
        )
        assert await output(sandbox, "id -un; echo $HOME") == "user\n/home/user"
        assert "Read-only" in (await sandbox.exec("touch /usr/bin/x /opt/x")).stderr.decode()
        has_python = (await sandbox.exec("python3 -c ''")).exit_code == 0
        assert has_python == (name == "python")
        await output(sandbox, "touch given.txt new /tmp/new; mkdir /home/user/new")
        await sandbox.upload(roots / "small/opt/tool", "/app/uploaded")
        assert await output(sandbox, "cat uploaded") == "of the template"
        for path in (*("/usr/bin/curl", "/root", "/etc/shadow", "/home/user/.ssh"), str(roots)):
            assert (await sandbox.exec(f"ls {path}")).exit_code != 0
    async with Sandbox(folder / "b", isolation=bubblewrap, template=template) as sandbox:
        assert (await sandbox.exec("ls new /tmp/new")).exit_code != 0


@on_loop
async def test_a_folder_is_used_where_it_is(folder: Path, bubblewrap: Isolation, roots: Path):
    shutil.copytree(roots / "small", folder / "t/rootfs", symlinks=True)
    (folder / "t/template.json").write_text(
        json.dumps({"env": {"FROM": "template", "PATH": "/usr/bin"}, "workdir": "/opt"})
    )
    template = await Templates({"t": folder / "t"}).get("t")
    assert template.root == folder / "t/rootfs"
    async with Sandbox(folder / "a", isolation=bubblewrap, template=template) as sandbox:
        seen = await sandbox.exec("pwd; echo $FROM $PATH $MINE", env={"MINE": "mine"})
        assert seen.stdout.decode() == "/opt\ntemplate /usr/bin mine\n"
        assert await output(sandbox, "cat tool") == "of the template"
        assert await output(sandbox, "ls -d /etc/passwd; cat /etc/passwd") == (
            "/etc/passwd\nuser:x:1000:1000::/home/user:/bin/bash"
        )


@on_loop
async def test_the_operators_folder_names_templates(
    tmp_path: Path, roots: Path, monkeypatch: pytest.MonkeyPatch
):
    there = tmp_path / "templates"
    there.mkdir()
    monkeypatch.setenv("RSIGYM_TEMPLATES", str(there))
    (there / "one.tar").touch()
    (there / "two.tar.gz").touch()
    (there / "three").mkdir()
    (there / "notes.txt").touch()
    templates = Templates({"four": roots / "small"})
    assert templates.names == ["base", "four", "one", "three", "two"]
    assert await templates.get("base") is BASE
    with pytest.raises(BadCall, match="use one of base, four, one, three, two"):
        await templates.get("five")
    monkeypatch.setenv("RSIGYM_TEMPLATES", str(there / "gone"))
    with pytest.raises(OperatorError, match="not a folder"):
        Templates()
    monkeypatch.delenv("RSIGYM_TEMPLATES")
    with pytest.raises(OperatorError, match="no template at"):
        Templates({"gone": there / "gone"})


@pytest.mark.parametrize(
    "text", ['{"enw": {}}', '{"env": {"A": 1}}', '{"workdir": "app"}', "[]", "{"]
)
def test_a_description_that_is_wrong_is_said_to_be(tmp_path: Path, text: str):
    (tmp_path / "t/rootfs").mkdir(parents=True)
    (tmp_path / "t/template.json").write_text(text)
    with pytest.raises(OperatorError, match=r"template\.json has to be"):
        Templates({"t": tmp_path / "t"})


@on_loop
async def test_an_archive_is_unpacked_once_by_its_content(
    folder: Path, bubblewrap: Isolation, roots: Path
):
    shutil.copy(roots / "small.tar", folder / "same.tar")
    found = await asyncio.gather(
        *(Templates({"t": path}).get("t") for path in (roots / "small.tar", folder / "same.tar"))
    )
    assert found[0].root == found[1].root
    assert found[0].root is not None
    assert found[0].root.parent == folder / "home/templates"
    left = {path.name for path in found[0].root.parent.glob(f"{found[0].digest}*")}
    first = f"{found[0].digest}.first.tar"
    assert left == {found[0].digest, f"{found[0].digest}.lock", first, f"{first}.lock"}


@on_loop
async def test_what_cannot_run_is_said_to_be(folder: Path, bubblewrap: Isolation, roots: Path):
    (folder / "empty").mkdir()
    with pytest.raises(OperatorError, match="cannot run /bin/bash"):
        await Templates({"t": folder / "empty"}).get("t")
    (folder / "text.tar").write_text("not a tar")
    with pytest.raises(OperatorError, match=r"give a \.tar, \.tar\.gz"):
        await Templates({"t": folder / "text.tar"}).get("t")


def test_plain_processes_have_no_templates(tmp_path: Path):
    with pytest.raises(OperatorError, match="needs bubblewrap"):
        Sandbox(tmp_path, isolation="process", template=Template("t", tmp_path))


@on_loop
async def test_plain_processes_cannot_be_saved(tmp_path: Path):
    async with Sandbox(tmp_path / "sandbox", isolation="process") as sandbox:
        with pytest.raises(OperatorError, match="use bubblewrap"):
            await sandbox.save(tmp_path / "saved.tar")
    assert not (tmp_path / "saved.tar").exists()


def archive(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644):
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, mode
    made.size = 1 if kind == tarfile.REGTYPE else 0
    return made


def test_links_stay_within_and_specials_stay_out(tmp_path: Path):
    (tmp_path / "secret").write_text("of the host")
    source = archive(
        tmp_path / "a.tar",
        member("usr", tarfile.DIRTYPE, mode=0o700),
        member("usr/tool", mode=0o4777),
        member("absolute", tarfile.SYMTYPE, "/usr/tool"),
        member("up", tarfile.SYMTYPE, "../../../../../secret"),
        member("usr/deep", tarfile.SYMTYPE, f"{tmp_path}/secret"),
        member("device", tarfile.CHRTYPE),
        member("pipe", tarfile.FIFOTYPE),
    )
    root = tmp_path / "root"
    unpack(source, root)
    assert sorted(path.name for path in root.iterdir()) == ["absolute", "up", "usr"]
    assert (root / "absolute").read_text() == "x"
    assert not (root / "up").exists()
    assert not (root / "usr/deep").exists()
    assert os.path.realpath(root / "usr/deep").startswith(str(root))
    assert (root / "usr/tool").stat().st_mode & 0o7777 == 0o755
    assert (root / "usr").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    "members",
    [
        [member("../out")],
        [member("in", tarfile.LNKTYPE, "../secret")],
        [member("a", tarfile.LNKTYPE, "/etc/passwd"), member("a/b")],
    ],
)
def test_what_leads_out_is_not_unpacked(tmp_path: Path, members: list[tarfile.TarInfo]):
    (tmp_path / "secret").write_text("of the host")
    with pytest.raises(OperatorError, match="not safe"):
        unpack(archive(tmp_path / "a.tar", *members), tmp_path / "root")
    assert not (tmp_path / "out").exists()


def test_a_file_behind_a_link_is_written_within(tmp_path: Path):
    source = archive(
        tmp_path / "a.tar",
        member("run", tarfile.DIRTYPE),
        member("var", tarfile.SYMTYPE, "/run"),
        member("var/x"),
    )
    unpack(source, tmp_path / "root")
    assert (tmp_path / "root/run/x").exists()


def test_an_images_layers_are_no_root(tmp_path: Path):
    with pytest.raises(OperatorError, match="docker export"):
        unpack(archive(tmp_path / "a.tar", member("manifest.json")), tmp_path / "root")
