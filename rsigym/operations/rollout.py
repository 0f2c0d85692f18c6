"""Chat completions of the frontier models that the operator offers, in OpenAI's terms."""

from typing import Annotated, Literal

from pydantic import Field

from rsigym.operations.base import Operation
from rsigym.operations.chat import ChatRequest

__all__ = ["RolloutChat", "RolloutModels"]


class RolloutModels(Operation, op="rollout.models"):
    """The frontier models that can be asked, with their limits and prices."""


class RolloutChat(ChatRequest, op="rollout.chat", paid=True):
    """A frontier model's chat completion; the fields and the answer are OpenAI's."""

    model: Annotated[
        str,
        Field(
            min_length=1,
            max_length=64,
            description="A model that rollout.models lists.",
            examples=["frontier"],
        ),
    ]
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
