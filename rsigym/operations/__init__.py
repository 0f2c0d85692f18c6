"""Everything that can be asked: one pydantic model per operation, one file per service.

The action space, the tool schemas, the HTTP bodies and the docs are all made from `OPERATIONS`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from rsigym.operations.base import Operation, Service
from rsigym.operations.budget import BudgetBalance, BudgetQuote
from rsigym.operations.evaluation import (
    EvaluationCancel,
    EvaluationRead,
    EvaluationStatus,
    EvaluationSubmit,
)
from rsigym.operations.inference import InferenceChat, InferenceModels
from rsigym.operations.rollout import RolloutChat, RolloutModels
from rsigym.operations.run import RunSubmit, RunWait
from rsigym.operations.sandbox import (
    SandboxCreate,
    SandboxKill,
    SandboxRead,
    SandboxRun,
    SandboxWrite,
)
from rsigym.operations.training import TrainingCancel, TrainingStatus, TrainingSubmit
from rsigym.operations.workspace import WorkspaceList, WorkspaceRead, WorkspaceWrite

__all__ = ["OPERATIONS", "Operation", "Service"]

_ALL: tuple[type[Operation], ...] = (
    WorkspaceList,
    WorkspaceRead,
    WorkspaceWrite,
    TrainingSubmit,
    TrainingStatus,
    TrainingCancel,
    InferenceModels,
    InferenceChat,
    RolloutModels,
    RolloutChat,
    EvaluationSubmit,
    EvaluationStatus,
    EvaluationCancel,
    EvaluationRead,
    SandboxCreate,
    SandboxRun,
    SandboxRead,
    SandboxWrite,
    SandboxKill,
    BudgetBalance,
    BudgetQuote,
    RunWait,
    RunSubmit,
)

OPERATIONS: Mapping[str, type[Operation]] = MappingProxyType({op.op: op for op in _ALL})
"""Every operation by its name, in the order in which masks and tool lists have them."""
