"""The state of an episode as an image, for those who record videos of episodes."""

import numpy as np
import numpy.typing as npt

from rsigym.envs.episode import Episode
from rsigym.envs.render import state_of

__all__ = ["render_picture"]

_WIDTH, _HEIGHT, _MARGIN, _LINE = 720, 360, 24, 54
_PAPER, _INK, _FULL, _BEGUN, _EMPTY = "#fcfcfb", "#1c1d1f", "#2560c8", "#9db8ea", "#e1e4e8"


def render_picture(episode: Episode, steps: int) -> npt.NDArray[np.uint8]:
    """uint8 of shape (360, 720, 3): each line of `state_of` above its bar, as many as fit."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (_WIDTH, _HEIGHT), _PAPER)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(16)
    whole = _WIDTH - 2 * _MARGIN
    places = range(_MARGIN, _HEIGHT - _LINE, _LINE)
    for y, line in zip(places, state_of(episode, steps), strict=False):
        draw.text((_MARGIN, y), line.text, fill=_INK, font=font)
        for share, colour in ((1.0, _EMPTY), (line.begun, _BEGUN), (line.full, _FULL)):
            if share > 0:
                end = _MARGIN + whole * min(1.0, share)
                draw.rectangle((_MARGIN, y + 24, end, y + 36), fill=colour)
    return np.asarray(image)
