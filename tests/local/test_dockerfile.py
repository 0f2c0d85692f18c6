"""What is made of a task's Dockerfile."""

from pathlib import Path

import pytest

from rsigym.local.dockerfile import Copy, Run, TaskImage, read_dockerfile
from rsigym.platform.errors import ServiceFailure


def read(folder: Path, text: str) -> TaskImage:
    (folder / "Dockerfile").write_text(text)
    return read_dockerfile(
        folder / "Dockerfile", lambda name: TaskImage(name, env={"PATH": "/bin", "OF": name})
    )


def test_a_dockerfile_is_read_for_what_a_sandbox_can_give(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    image = read(
        tmp_path,
        "# syntax=docker/dockerfile:1\n"
        "FROM --platform=linux/amd64 python:3.12-slim AS task\n"
        "WORKDIR /srv\n"
        "workdir data\n"
        "ENV ONE=1 \\\n"
        "# a comment between\n"
        '    TWO="two words"\n'
        "ENV THREE the old way\n"
        "COPY a.txt ./\n"
        "EXPOSE 80\n"
        "USER agent\n"
        'CMD ["sleep", "infinity"]\n',
    )
    assert image.base == "python:3.12-slim"
    assert image.workdir == "/srv/data"
    variables = {"ONE": "1", "TWO": "two words", "THREE": "the old way"}
    assert image.env == {"PATH": "/bin", "OF": "python:3.12-slim"} | variables
    assert image.copies == [Copy(tmp_path / "a.txt", "/srv/data/a.txt")]
    assert image.built == ()


def test_variables_and_arguments_are_put_in(tmp_path: Path) -> None:
    image = read(
        tmp_path,
        "ARG TAG=3 OTHER=5\n"
        "FROM debian:${TAG}\n"
        "ARG OTHER NAME=tool\n"
        "ENV PATH=/opt/$NAME/bin:$PATH HOME_OF=${NAME}\n"
        "ENV COST=\\$1 UNSET=[$TAG] ELSE=${TAG:-none} MORE=${NAME:+more} LEFT=${TAG:+x}\n"
        "WORKDIR /app/$NAME-$OTHER\n"
        "RUN echo $NAME '$1' ${TAG}\n",
    )
    assert image.base == "debian:3"
    assert image.workdir == "/app/tool-5"
    assert image.env == {
        "PATH": "/opt/tool/bin:/bin",
        "OF": "debian:3",
        "HOME_OF": "tool",
        "COST": "$1",
        "UNSET": "[]",
        "ELSE": "none",
        "MORE": "more",
        "LEFT": "",
    }
    (run,) = image.built
    assert isinstance(run, Run)
    assert run.command == "echo $NAME '$1' ${TAG}"
    assert run.env == {"OTHER": "5", "NAME": "tool", **image.env}
    assert run.line == 7


def test_steps_keep_their_order_and_those_after_the_last_command_are_left(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "c.md"):
        (tmp_path / name).touch()
    image = read(
        tmp_path,
        "FROM x\nWORKDIR /app/one\nCOPY --chown=1000:1000 a.txt .\n"
        'RUN first && \\\n    second "a \\\n b"\nWORKDIR /app/two\nRUN ["pip", "a b"]\n'
        'ADD ["b.txt", "c.md", "/app/"]\nCOPY *.txt all/\n',
    )
    assert [type(step) for step in image.built] == [Copy, Run, Run]
    commands = [(step.command, step.workdir) for step in image.built if isinstance(step, Run)]
    assert commands == [
        ('first &&     second "a  b"', "/app/one"),
        ("pip 'a b'", "/app/two"),
    ]
    assert [copy.target for copy in image.copies] == [
        "/app/b.txt",
        "/app/c.md",
        "/app/two/all/a.txt",
        "/app/two/all/b.txt",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("FROM debian", "cannot do FROM"),
        ("SHELL /bin/sh", "cannot do SHELL"),
        ("VOLUME /data", "cannot do VOLUME"),
        ("RUN --mount=type=secret,id=x true", "without options"),
        ("RUN <<EOF", "here-documents"),
        ("RUN cat <<'EOF' > a", "here-documents"),
        ("ADD https://example.com/a /a", "no URLs"),
        ("ADD a.tar.gz /a", "no unpacking"),
        ("COPY --from=build /a /a", "without options"),
        ("COPY a.txt", "sources and a target"),
        ("COPY missing.txt /app/", "'missing.txt' is not in"),
        ("COPY *.missing /app/", "nothing in the environment folder matches"),
        ("COPY ../secret.txt /app/", "is not in the environment folder"),
        ("COPY ../*.txt /app/", "is not in the environment folder"),
        ("COPY link /app/", "is not in the environment folder"),
        ("ENV A=${HOME%/*}", "of variables"),
        ("ENV A='$HOME'", "single quotes"),
        ("ENV A", "NAME=value"),
        ("COPY <<EOF /app/a", "here-documents"),
    ],
)
def test_a_line_that_cannot_be_done_is_named(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "secret.txt").touch()
    folder = tmp_path / "environment"
    folder.mkdir()
    (folder / "link").symlink_to("../secret.txt")
    with pytest.raises(ServiceFailure, match=said) as refused:
        read(folder, f"FROM scratch\n\n{line}\n")
    assert refused.value.side == "task"
    assert refused.value.details == {"file": "environment/Dockerfile", "line": 3}
