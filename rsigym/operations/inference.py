"""Chat completions of base models and of checkpoints, in OpenAI's terms."""

from typing import Annotated

from pydantic import Field

from rsigym.operations.base import ModelName, Operation
from rsigym.operations.chat import ChatRequest

__all__ = ["InferenceChat", "InferenceModels"]


class InferenceModels(Operation, op="inference.models"):
    """The models that can be asked, with their context lengths and prices."""


class InferenceChat(ChatRequest, op="inference.chat", paid=True):
    """A chat completion; the fields and the answer are OpenAI's."""

    model: ModelName
    renderer: Annotated[
        str,
        Field(
            min_length=1,
            max_length=64,
            description=(
                "chat_template: the model's own. Or one of tinker-cookbook by name: qwen3_5, say, "
                "or qwen3_5_preserve_thinking, which keeps the thoughts of earlier turns."
            ),
        ),
    ] = "chat_template"
