"""Asking a provider through litellm, and what is certain about the money afterwards.

litellm makes up statuses: a connection that was refused and an answer that nobody can read are
both a 500 to it. What counts here is what its HTTP client saw. `Declined` is certain: the provider
answered with an error status, or was never reached. Everything else that goes wrong is
`Unclear`: the answer may have been made, and billed.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rsigym.operations.json_value import Json
from rsigym.platform.errors import BadCall, ServiceFailure
from rsigym.platform.rollout_models import RolloutModel

__all__ = ["Declined", "Unclear", "complete"]

_MOST_WORDS = 2000
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 8
_PREFIXES = re.compile(r"^(litellm\.\w+: )+((\w+( Error)?: )?\w+(Exception|Error)( \w+)? - )?")
_NO_KEY = "no-key"
"""For servers that want none: without a key litellm would send the operator's own one of OpenAI."""


@dataclass
class Declined(Exception):
    """The provider did not take the request, and bills nothing.

    Attributes:
        status: The HTTP status; None if the provider was not reached.
        words: What it said.
        code: Its own code of the error, if it gave one.
        wait: Seconds after which it asked to be tried again, if it did.
        retries: How often it had been asked before.
    """

    status: int | None
    words: str
    code: str | None = None
    wait: float | None = None
    retries: int = 0


@dataclass
class Unclear(Exception):
    """Nobody knows whether the request was answered, and billed.

    Attributes:
        timed_out: No answer came in time.
        retries: How often the provider had been asked before.
    """

    words: str
    timed_out: bool = False
    retries: int = 0


def complete(model: RolloutModel, request: Mapping[str, Json], timeout_s: float) -> dict[str, Any]:
    """Ask once, and wait for the whole chat completion.

    The key is read from the environment for this one call.

    Raises:
        BadCall: The provider has no such field; nothing was sent.
        ServiceFailure: It has no provider or no key; nothing was sent.
        Declined, Unclear: Nothing came of it.
    """
    litellm = _litellm()
    try:
        litellm.get_llm_provider(model.model, api_base=model.api_base)
    except litellm.BadRequestError:
        raise ServiceFailure(
            f"litellm knows no provider of {model.model!r}: the operator has to name it, as in "
            "openai/<name> for an OpenAI-compatible server"
        ) from None
    key = _key(litellm, model)
    try:
        answer = litellm.completion(
            model=model.model,
            api_base=model.api_base,
            api_key=key,
            timeout=timeout_s,
            # Retries are counted and paid by whoever asks.
            num_retries=0,
            max_retries=0,
            **request,
        )
        return answer.model_dump(mode="json")
    except litellm.UnsupportedParamsError as error:
        words, _, _ = _words(error).partition(". To drop")
        raise BadCall(f"this model does not take the request: {words}") from None
    except Exception as error:  # noqa: BLE001 - litellm raises whatever its providers' clients do
        judged = _judged(error)
        judged.words = _scrubbed(judged.words, key)[:_MOST_WORDS]
        raise judged from None


def _litellm() -> Any:
    """The package, which takes seconds to import.

    Imported with its price map from the disk: by default it fetches the map from the internet.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    return litellm


def _key(litellm: Any, model: RolloutModel) -> str | None:
    """The key to send; None leaves it to litellm, which has looked that there is one."""
    if model.api_key_env is not None:
        missing = [] if os.environ.get(model.api_key_env) else [model.api_key_env]
    elif model.api_base is not None:
        return _NO_KEY
    else:
        missing = litellm.validate_environment(model.model)["missing_keys"]
    if missing:
        names = " or ".join(missing)
        raise ServiceFailure(f"there is no key for this model: the operator has to set {names}")
    return os.environ[model.api_key_env] if model.api_key_env else None


def _judged(error: Exception) -> Declined | Unclear:
    """What is certain after an error, by the HTTP client's exception behind it."""
    import httpx

    for cause in _causes(error):
        if isinstance(cause, httpx.HTTPStatusError):
            response = cause.response
            wait = response.headers.get("retry-after", "")
            return Declined(
                response.status_code,
                _words(error),
                _code(error),
                float(wait) if wait.isdecimal() else None,
            )
        if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout):
            return Declined(None, f"the provider cannot be reached: {cause}")
    timed_out = any(isinstance(cause, httpx.TimeoutException) for cause in _causes(error))
    return Unclear(_words(error), timed_out)


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _code(error: Exception) -> str | None:
    """OpenAI's code of an error; litellm puts statuses in the same place."""
    if type(error).__name__ == "ContextWindowExceededError":
        return "context_length_exceeded"
    codes = (getattr(cause, "code", None) for cause in _causes(error))
    return next((code for code in codes if isinstance(code, str) and not code.isdecimal()), None)


def _words(error: Exception) -> str:
    """What an error says, without litellm's prefixes and traceback."""
    return _PREFIXES.sub("", str(error).partition("\nTraceback")[0])


def _scrubbed(text: str, key: str | None) -> str:
    """The text without the key, and without any value of the environment that may be one.

    Providers and proxies repeat keys in what they say, and litellm finds some keys by itself.
    """
    secrets = {key} if key else set[str]()
    secrets |= {
        value
        for name, value in os.environ.items()
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET
    }
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[redacted]")
    return text
