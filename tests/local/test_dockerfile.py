"""What is made of a task's Dockerfile."""

from pathlib import Path

import pytest

from rsigym.local.dockerfile import read_dockerfile
from rsigym.platform.errors import ServiceFailure


def test_a_dockerfile_is_read_for_what_a_sandbox_can_give(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "Dockerfile").write_text(
        "# syntax=docker/dockerfile:1\n"
        "FROM python:3.12-slim\n"
        "WORKDIR /srv\n"
        "workdir data\n"
        "ENV ONE=1 \\\n"
        "# a comment between\n"
        '    TWO="two words"\n'
        "ENV THREE the old way\n"
        "COPY a.txt ./\n"
        "EXPOSE 80\n"
        'CMD ["sleep", "infinity"]\n'
    )
    image = read_dockerfile(tmp_path / "Dockerfile")
    assert image.workdir == "/srv/data"
    assert image.env == {"ONE": "1", "TWO": "two words", "THREE": "the old way"}
    assert image.copies == ((tmp_path / "a.txt", "/srv/data/a.txt"),)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("RUN pip install numpy", "cannot do RUN"),
        ("RUN pip install \\\n  numpy", "cannot do RUN"),
        ("FROM debian", "cannot do FROM"),
        ("USER agent", "cannot do USER"),
        ("ADD https://example.com/a /a", "cannot do ADD"),
        ("COPY --from=build /a /a", "without options"),
        ("COPY a.txt", "sources and a target"),
        ("COPY missing.txt /app/", "'missing.txt' is not in"),
        ("COPY ../secret.txt /app/", "is not in the environment folder"),
        ("ENV A=$HOME", "variables"),
        ("ENV A", "NAME=value"),
        ("COPY <<EOF /app/a", "here-documents"),
    ],
)
def test_a_line_that_needs_a_build_is_named(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "secret.txt").touch()
    folder = tmp_path / "environment"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM scratch\n\n{line}\n")
    with pytest.raises(ServiceFailure, match=said) as refused:
        read_dockerfile(folder / "Dockerfile")
    assert refused.value.side == "task"
    assert refused.value.details == {"file": "environment/Dockerfile", "line": 3}
