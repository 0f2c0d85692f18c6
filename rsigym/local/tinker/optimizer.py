"""An adapter in training: its accumulated gradient, and Adam."""

import math

import torch
from torch import Tensor

from rsigym.local.tinker.lora import Adapter
from rsigym.local.tinker.specs import AdamSpec, EngineError

__all__ = ["TrainingState"]


class TrainingState:
    """An adapter's weights, accumulated gradient and Adam moments, all of one flat layout."""

    def __init__(self, adapter: Adapter):
        self.adapter = adapter
        self.gradient: Tensor | None = None
        self.first_moment = torch.zeros_like(adapter.vector)
        self.second_moment = torch.zeros_like(adapter.vector)
        self.steps = 0

    def accumulate(self, gradient: Tensor) -> None:
        """Add to the gradient that the next step applies."""
        self.gradient = gradient if self.gradient is None else self.gradient + gradient

    def optim_step(self, adam: AdamSpec) -> dict[str, float]:
        """One step of Adam with decoupled weight decay; the gradient is cleared.

        Returns:
            The gradient's norm before clipping.

        Raises:
            EngineError: There is no gradient, or it is not finite (it is dropped then).
        """
        gradient, self.gradient = self.gradient, None
        if gradient is None:
            raise EngineError("no gradient to apply: call forward_backward before optim_step")
        norm = gradient.norm().item()
        if not math.isfinite(norm):
            raise EngineError(
                "the gradient is not finite and was dropped: lower the learning rate, or check "
                "the loss inputs"
            )
        if 0 < adam.grad_clip_norm < norm:
            gradient = gradient * (adam.grad_clip_norm / norm)
        self.steps += 1
        self.first_moment.lerp_(gradient, 1 - adam.beta1)
        self.second_moment.mul_(adam.beta2).addcmul_(gradient, gradient, value=1 - adam.beta2)
        scale = (self.second_moment / (1 - adam.beta2**self.steps)).sqrt_().add_(adam.eps)
        weights = self.adapter.vector
        weights.mul_(1 - adam.learning_rate * adam.weight_decay)
        rate = adam.learning_rate / (1 - adam.beta1**self.steps)
        weights.addcdiv_(self.first_moment, scale, value=-rate)
        return {"unclipped_grad_l2:mean": norm}
