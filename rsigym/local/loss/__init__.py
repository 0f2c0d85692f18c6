"""An agent's own loss, computed in a locked process of this machine."""

from rsigym.local.loss.process import open_loss

__all__ = ["open_loss"]
