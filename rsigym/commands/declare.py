"""How a subcommand is declared."""

import argparse
from collections.abc import Callable

__all__ = ["Subparsers", "declare"]

type Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]


def declare(
    commands: Subparsers,
    name: str,
    work: Callable[[argparse.Namespace], int] | None,
    summary: str,
    examples: str,
) -> argparse.ArgumentParser:
    """Add a subcommand whose help ends with examples; `work` answers the exit status."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=work)
    return parser
