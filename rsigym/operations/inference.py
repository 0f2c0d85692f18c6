"""Chat completions of base models and of checkpoints, in OpenAI's terms."""

from rsigym.operations.base import ModelName, Operation, RendererName
from rsigym.operations.chat import ChatRequest

__all__ = ["InferenceChat", "InferenceModels"]


class InferenceModels(Operation, op="inference.models"):
    """The models that can be asked, with their context lengths and prices."""


class InferenceChat(ChatRequest, op="inference.chat", paid=True):
    """A chat completion; the fields and the answer are OpenAI's."""

    model: ModelName
    renderer: RendererName = "chat_template"
