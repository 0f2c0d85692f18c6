"""Chat completions of base models and of checkpoints, in OpenAI's terms."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rsigym.operations.base import ModelName, Operation

__all__ = ["InferenceChat", "InferenceModels", "Message"]


class Message(BaseModel):
    """One chat message."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    role: Literal["system", "user", "assistant"]
    content: Annotated[str, Field(max_length=1_000_000)]


class InferenceModels(Operation, op="inference.models"):
    """The models that can be asked, with their context lengths and prices."""


class InferenceChat(Operation, op="inference.chat", paid=True):
    """A chat completion; the fields and the answer are OpenAI's."""

    model: ModelName
    messages: Annotated[
        list[Message],
        Field(
            min_length=1,
            max_length=1000,
            examples=[[{"role": "user", "content": "Hello"}]],
        ),
    ]
    max_tokens: Annotated[int, Field(ge=1, le=65_536)] = 256
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    n: Annotated[int, Field(ge=1, le=64)] = 1
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    seed: Annotated[int | None, Field(ge=-(2**31), le=2**31 - 1)] = None
    logprobs: bool = False
