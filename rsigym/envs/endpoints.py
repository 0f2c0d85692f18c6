"""What a sandboxed trial can reach: its one model, over OpenAI's API."""

from collections.abc import Callable
from dataclasses import dataclass

from rsigym.operations.inference import InferenceChat
from rsigym.operations.json_value import Json
from rsigym.platform.errors import BudgetExhausted
from rsigym.platform.meter import Meter
from rsigym.services.endpoint import chat_app, serve
from rsigym.services.inference import InferenceService
from rsigym.services.trial_model import TrialModel
from rsigym.services.trials import Serve

__all__ = ["TrialEndpoints"]


@dataclass(frozen=True)
class TrialEndpoints:
    """Makes the endpoint of each trial, which charges the trial's evaluation."""

    inference: InferenceService

    def __call__(self, model: str, meter: Meter, on_exhausted: Callable[[], None]) -> Serve:
        served = TrialModel(self.inference, model, meter)

        async def complete(request: InferenceChat) -> dict[str, Json]:
            try:
                return await served.complete(request)
            except BudgetExhausted:
                on_exhausted()
                raise

        return lambda sock: serve(sock, chat_app(complete, [model]))
