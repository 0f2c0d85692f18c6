"""The state of an episode as a person would like to read it."""

from rsigym.envs.episode import Episode
from rsigym.platform.money import to_usd

__all__ = ["render_text"]

_WIDTH = 24


def render_text(episode: Episode, steps: int) -> str:
    """A few lines: the budget as a bar, scores by benchmark, and what is running."""
    balance = episode.run.ledger.balance(episode.run.id)
    total = balance.total or 0
    lines = [
        f"{episode.experiment.name}, step {steps}",
        f"budget {_bar(balance.spent, balance.held, total)} "
        f"${to_usd(balance.spent):.2f} spent, ${to_usd(balance.held):.2f} held "
        f"of ${to_usd(total):.2f}",
    ]
    for name, (initial, best) in zip(
        episode.scoreboard.benchmarks, episode.scoreboard.array(), strict=True
    ):
        lines.append(f"{name}: initial {_score(initial)}, best in development {_score(best)}")
    for job in episode.running():
        done, whole = job.progress
        lines.append(f"{job.handle}: {done} of {whole}")
    return "\n".join(lines)


def _bar(spent: int, held: int, total: int) -> str:
    scale = _WIDTH / total if total else 0
    full = round(spent * scale)
    reserved = round((spent + held) * scale) - full
    return f"[{'#' * full}{'+' * reserved}{'.' * (_WIDTH - full - reserved)}]"


def _score(score: float) -> str:
    return "–" if score < 0 else f"{score:.3f}"
