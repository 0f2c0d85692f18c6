"""Taking up a run whose process died: `rsigym.resume`."""

from contextlib import closing
from pathlib import Path

from rsigym.envs.env import RSIGymEnv
from rsigym.envs.experiment import Experiment
from rsigym.envs.run_folder import RunFolder
from rsigym.platform.errors import OperatorError
from rsigym.platform.journal import JOURNAL, read_journal
from rsigym.platform.permissions import Permissions

__all__ = ["resume"]


def resume(run_dir: str | Path) -> RSIGymEnv:
    """An env whose next `reset` goes on with the run in a folder; the `reset` after it opens a new.

    The workspace is as it was left, checkpoints and trials that were paid for are there, and jobs
    that were running are `interrupted`. Calls that were under way are settled: see
    `rsigym.platform.reconcile`. Permissions are as narrow as they had become. Time during which
    nobody worked on the run does not count.

    Raises:
        OperatorError: The folder holds no run that can go on, or another process has it.
    """
    with closing(RunFolder.existing(Path(run_dir))) as folder:
        if missing := Experiment.model_fields.keys() - folder.facts.keys():
            raise OperatorError(
                f"the run in {run_dir} was begun by another version of rsigym: its experiment.json "
                f"has no {', '.join(sorted(missing))}"
            )
        settings = {name: folder.facts[name] for name in Experiment.model_fields}
        env = RSIGymEnv(**settings, run_dir=str(folder.path.parent))
        env.narrow(Permissions.model_validate(folder.facts["permissions"]))
        for event in read_journal(folder.path / JOURNAL):
            if event.get("event") == "narrow":
                env.narrow(Permissions.model_validate(event["permissions"]))
    env.resume(folder.path)
    return env
