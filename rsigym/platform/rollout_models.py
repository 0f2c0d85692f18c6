"""The frontier models that an operator offers to a run, and how each is reached and paid."""

import os
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rsigym.platform.errors import OperatorError
from rsigym.platform.litellm_prices import femto, litellm_price
from rsigym.platform.rollout_price import Rates, RolloutPrice

__all__ = ["Alias", "Price", "RolloutModel", "rollout_prices"]


def _address(url: str) -> str:
    """A URL that can be written down."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http(s) URL")
    if parts.username or parts.password or parts.query:
        raise ValueError("must hold no user, password or query: name the key in api_key_env")
    return url


type Alias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.:/-]{0,63}$")]
_Usd = Annotated[float, Field(ge=0, le=1e6)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Price(_Strict):
    """USD per million tokens, given by the operator; zero is allowed here.

    Attributes:
        cached_input: Of prompt tokens that were cached; as `input` if None.
    """

    input: _Usd
    output: _Usd
    cached_input: _Usd | None = None


class RolloutModel(_Strict):
    """One model that is offered.

    Attributes:
        model: litellm's name of it, such as `anthropic/claude-sonnet-5`, or `openai/<name>` for
            any OpenAI-compatible server.
        api_base: Where it is asked, if not where litellm finds the provider.
        api_key_env: The environment variable with the key. By default litellm's own for the
            provider; none is sent to an `api_base`.
        price: What a token costs, where litellm's map does not say or says something else.
        max_output: Tokens that a completion may have, if not as in litellm's map.
    """

    model: Annotated[str, Field(min_length=1, max_length=256)]
    api_base: Annotated[str, AfterValidator(_address)] | None = None
    api_key_env: Annotated[str, Field(pattern=r"^\w+$")] | None = None
    price: Price | None = None
    max_output: Annotated[int, Field(ge=1)] | None = None

    def priced(self) -> RolloutPrice:
        """Its price and its limits.

        Raises:
            OperatorError: It has no complete price, or its key is not in the environment.
        """
        if self.api_key_env is not None and not os.environ.get(self.api_key_env):
            raise OperatorError(
                f"rollout model {self.model!r} needs the environment variable {self.api_key_env}"
            )
        price = litellm_price(self.model) if self.price is None else _explicit(self.price)
        return RolloutPrice(price.tiers, price.context, self.max_output or price.max_output)


def rollout_prices(models: Mapping[str, RolloutModel]) -> dict[str, RolloutPrice]:
    """The price of every model that is offered, by alias.

    Raises:
        OperatorError: One has none, or its key is not in the environment.
    """
    return {alias: model.priced() for alias, model in models.items()}


def _explicit(price: Price) -> RolloutPrice:
    read, written = femto(price.input, 10**6), femto(price.output, 10**6)
    cached = read if price.cached_input is None else femto(price.cached_input, 10**6)
    return RolloutPrice(((-1, Rates(read, cached, read, written, written)),))
