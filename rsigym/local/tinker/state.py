"""What the routes share: engines, sessions, the checkpoint store, and links into it."""

from dataclasses import dataclass

from starlette.requests import Request

from rsigym.local.tinker.engines import Engines
from rsigym.local.tinker.links import Links
from rsigym.local.tinker.sessions import Sessions
from rsigym.local.tinker.store import Store

__all__ = ["State", "state_of"]


@dataclass(frozen=True)
class State:
    engines: Engines
    sessions: Sessions
    store: Store
    links: Links


def state_of(request: Request) -> State:
    return request.app.state.tinker
