"""LoRA training: data and a configuration in, step metrics and checkpoints out."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rsigym.operations.base import (
    Checkpoint,
    Handle,
    Operation,
    PaidFrom,
    RendererName,
    WorkspacePath,
)
from rsigym.operations.json_value import Json

__all__ = [
    "AdamParams",
    "LoraConfig",
    "LossName",
    "TrainingCancel",
    "TrainingConfig",
    "TrainingStatus",
    "TrainingSubmit",
]

type Schedule = Literal["constant", "linear", "cosine"]
type TrainOn = Literal["all_assistant_messages", "last_assistant_message"]
type LossName = Literal["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"]


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class LoraConfig(_Config):
    """The adapter; names are Tinker's, and so are the defaults, where Tinker has any.

    Tinker draws a seed where none is given. Here it is 0, so that a run can be repeated; the order
    of the data hangs on it too.
    """

    rank: Annotated[int, Field(ge=1, le=256)] = 16
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    train_mlp: bool = True
    train_attn: bool = True
    train_unembed: bool = True


class AdamParams(_Config):
    """The optimizer; names and defaults are Tinker's."""

    learning_rate: Annotated[float, Field(gt=0, le=1)] = 1e-4
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    eps: Annotated[float, Field(gt=0, le=1)] = 1e-12
    weight_decay: Annotated[float, Field(ge=0, le=10)] = 0.0
    grad_clip_norm: Annotated[float, Field(ge=0, description="0 turns clipping off.")] = 0.0


class TrainingConfig(_Config):
    """How to train. Every field has a default; the base model's is the experiment's own."""

    base_model: Annotated[
        str | None, Field(max_length=512, description="The initial model by default.")
    ] = None
    lora_config: LoraConfig = LoraConfig()
    adam_params: AdamParams = AdamParams()
    loss_fn: LossName = "cross_entropy"
    loss_fn_config: Annotated[
        dict[str, float], Field(description="ppo, cispo, gspo: clip_*_threshold; dro: beta.")
    ] = {}
    num_epochs: Annotated[int, Field(ge=1, le=100)] = 1
    batch_size: Annotated[int, Field(ge=1, le=1024, description="Records of a step.")] = 16
    records: Annotated[
        Literal["messages", "tokens"], Field(description="What a record is made of.")
    ] = "messages"
    max_length: Annotated[int, Field(ge=8, le=262_144, description="Tokens of a record.")] = 2048
    on_too_long: Annotated[
        Literal["truncate", "skip", "refuse"],
        Field(description="What becomes of a record that is longer; refuse: of the whole call."),
    ] = "truncate"
    max_steps: Annotated[
        int | None, Field(ge=1, le=100_000, description="After which it ends, whatever is left.")
    ] = None
    train_on_what: TrainOn = "all_assistant_messages"
    lr_schedule: Schedule = "linear"
    warmup_steps: Annotated[
        int, Field(ge=0, le=100_000, description="Steps in which the rate rises, then schedule.")
    ] = 0
    renderer: RendererName = "chat_template"
    checkpoint_every: Annotated[
        int | None, Field(ge=1, description="Steps between checkpoints; the last step has one.")
    ] = None


class TrainingSubmit(Operation, op="training.submit", paid=True):
    """Start a training run. A record is `{"messages": [{"role", "content"}, …]}`, and `tools`, as a
    chat request has them; losses other than cross_entropy also take its `advantage` and the
    `logprobs` of its trained tokens. With `records: "tokens"` it is `{"tokens", "weights",
    "logprobs", "advantages"}`, equally long lists.

    Answers a handle at once, with what the data came to: records, tokens, steps, the quote.
    """

    data: Annotated[
        WorkspacePath | list[dict[str, Json]],
        Field(
            description="A JSONL file of the workspace, one record a line, or the records.",
            examples=["data/train.jsonl"],
        ),
    ]
    config: TrainingConfig = Field(default_factory=TrainingConfig)
    loss: Annotated[
        WorkspacePath | None,
        Field(
            description="A Python file of the workspace that defines loss_fn(data, logprobs) -> "
            "(loss, metrics) in torch, instead of config.loss_fn; costs twice as much.",
            examples=["loss.py"],
        ),
    ] = None
    init_from: Annotated[
        Checkpoint | None,
        Field(description="Start from this checkpoint's weights, with a new optimizer."),
    ] = None
    benchmark: PaidFrom = None


class TrainingStatus(Operation, op="training.status"):
    """State, progress, step metrics, checkpoints, cost so far and the error of a training run."""

    handle: Handle
    offset: Annotated[int, Field(ge=0, description="The first step metric to show.")] = 0
    limit: Annotated[int, Field(ge=0, le=1000, description="Step metrics at most.")] = 100


class TrainingCancel(Operation, op="training.cancel"):
    """Stop a training run after the step it is in; it keeps a checkpoint of the work paid for."""

    handle: Handle
