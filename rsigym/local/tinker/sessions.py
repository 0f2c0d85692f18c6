"""What a client has open on the server, and how it goes away when the client does.

Every id begins with the id of its session (`<session>:train:<n>`, `<session>:sample:<n>`, and a
request under either), so one look-up finds the session and notes that its client is alive. The
SDK builds the same model ids itself.
"""

import asyncio
import logging
import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rsigym.local.tinker.futures import Promises, Turns
from rsigym.local.tinker.refusal import Refusal
from rsigym.local.tinker.store import Store

if TYPE_CHECKING:
    from rsigym.local.tinker.engine import Engine

__all__ = ["Sampler", "Session", "Sessions", "TrainingModel"]

_log = logging.getLogger(__name__)

# The SDK sends a heartbeat every 10 s; after a minute of silence its process is gone.
SILENCE_S = 60.0
# Silence is counted in looks, not read from a clock: a server that was itself suspended must not
# find every client silent when it wakes.
_LOOKS = 4


@dataclass
class Sampler:
    """Something to sample from.

    Attributes:
        id: The sampling session id.
        base_model: The name of the base model.
        path: The checkpoint it was opened on; None for a base model or unnamed weights.
        folder: The saved adapter; None for the base model.
    """

    id: str
    base_model: str
    path: str | None
    folder: Path | None


@dataclass
class TrainingModel:
    """An adapter in training.

    Attributes:
        id: The model id, which is also the engine's name for the adapter and the training run's id.
        session: The session it belongs to.
        base_model: The name of the base model.
        rank: The LoRA rank.
        engine: Where it is trained.
        turns: The order of its requests.
        inflight: The samplers that follow its inflight saves.
    """

    id: str
    session: "Session"
    base_model: str
    rank: int
    engine: "Engine"
    turns: Turns = field(default_factory=Turns)
    inflight: list[Sampler] = field(default_factory=list)


@dataclass
class Session:
    """One client's share of the server.

    Attributes:
        id: The session id.
        scratch: Holds weights saved without a name.
        looks: How often it was looked at without a request of its client in between.
    """

    id: str
    scratch: Path
    looks: int = 0
    promises: Promises = field(default_factory=Promises)
    models: dict[str, TrainingModel] = field(default_factory=dict)
    samplers: dict[str, Sampler] = field(default_factory=dict)


class Sessions:
    """The open sessions.

    Args:
        store: Where training runs are recorded.
        scratch: A folder for weights that live as long as their session.
        silence_s: Seconds without any request after which a session is ended.
    """

    def __init__(self, store: Store, scratch: Path, *, silence_s: float = SILENCE_S) -> None:
        self._store = store
        self._scratch = scratch
        self._silence_s = silence_s
        self._open: dict[str, Session] = {}
        self._ended: set[str] = set()

    def open(self) -> Session:
        identifier = uuid.uuid4().hex
        scratch = self._scratch / identifier
        scratch.mkdir(parents=True)
        session = Session(identifier, scratch)
        self._open[identifier] = session
        return session

    def ids(self) -> list[str]:
        return list(self._open)

    def of(self, identifier: str) -> Session:
        """The session that a session, model, sampler or request id belongs to, now seen alive."""
        session = self.look_up(identifier)
        session.looks = 0
        return session

    def look_up(self, identifier: str) -> Session:
        """The same for an onlooker: it does not keep the session alive."""
        session_id = identifier.partition(":")[0]
        if session_id in self._ended:
            raise Refusal(
                410,
                f"session {session_id} has ended: its client closed it or was silent for "
                f"{self._silence_s:g} s; make a new ServiceClient",
            )
        if session_id not in self._open:
            raise Refusal(
                404,
                f"no session {session_id!r} on this server, which may have been restarted: make a "
                "new ServiceClient and go on from the last saved state",
            )
        return self._open[session_id]

    def model(self, model_id: str) -> TrainingModel:
        models = self.of(model_id).models
        if model_id not in models:
            raise Refusal(404, f"no model {model_id!r}: it was unloaded, or never created")
        return models[model_id]

    def sampler(self, sampler_id: str) -> Sampler:
        samplers = self.of(sampler_id).samplers
        if sampler_id not in samplers:
            raise Refusal(404, f"no sampling session {sampler_id!r}")
        return samplers[sampler_id]

    def unload(self, model: TrainingModel) -> None:
        """Free an adapter; what was not saved is lost."""
        del model.session.models[model.id]
        model.engine.drop(model.id)
        self._store.close_run(model.id)

    def end(self, session: Session) -> None:
        """Cancel what is under way and free all that the session held."""
        del self._open[session.id]
        self._ended.add(session.id)
        session.promises.cancel_all()
        for model in list(session.models.values()):
            self.unload(model)
        shutil.rmtree(session.scratch, ignore_errors=True)

    async def end_silent(self) -> None:
        """End sessions whose clients are gone, for as long as the server runs."""
        while True:
            await asyncio.sleep(self._silence_s / _LOOKS)
            for session in list(self._open.values()):
                session.looks += 1
                if session.looks > _LOOKS:
                    self._end_safely(session)

    def _end_safely(self, session: Session) -> None:
        """End a session; what goes wrong with its files must not keep the others open for ever."""
        try:
            self.end(session)
        except Exception:  # noqa: BLE001 - whatever it is, the next silent session is ended too
            _log.exception("session %s did not end cleanly", session.id)
