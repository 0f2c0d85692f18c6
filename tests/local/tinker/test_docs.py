"""docs/tinker.md says of every loss what the code says."""

from pathlib import Path

from rsigym.local.tinker.losses import LOSSES, Loss

PAGE = Path(__file__).parents[3] / "docs" / "tinker.md"


def row(loss: Loss) -> str:
    inputs = ", ".join(
        f"`{name}`" + (f" ({loss.defaults[name]:g} if left out)" if name in loss.defaults else "")
        for name in loss.inputs
    )
    settings = ", ".join(
        f"`{name}` {'(required)' if value is None else value}"
        for name, value in loss.settings.items()
    )
    return f"| `{loss.name}` | {inputs} | {settings} |"


def test_the_table_of_losses_is_true() -> None:
    found = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    written = found[: len(LOSSES)]
    assert written == [row(loss) for loss in LOSSES.values()]
