"""The price book: what a token and a sandbox-second cost. No price, no call."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rsigym.platform.errors import ServiceFailure

__all__ = ["PriceBook", "TokenPrice", "local_prices"]


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Nano-USD a token of one model; 1000 is one USD per million tokens."""

    prefill: int
    sample: int
    train: int


@dataclass(frozen=True)
class PriceBook:
    """Every price of an experiment.

    Attributes:
        version: The book's name, written into `experiment.json` with its hash.
        models: Token prices by base model.
        sandbox_millisecond: Nano-USD a millisecond of a sandbox.
    """

    version: str
    models: Mapping[str, TokenPrice]
    sandbox_millisecond: int

    def tokens(self, model: str) -> TokenPrice:
        """The prices of a base model.

        Raises:
            ServiceFailure: It has none, so nothing can be asked of it.
        """
        price = self.models.get(model)
        if price is None:
            raise ServiceFailure(
                f"model {model!r} has no price, so it cannot be used; "
                f"priced: {', '.join(sorted(self.models)) or 'none'}"
            )
        return price

    def digest(self) -> str:
        """A hash of every price, to tell whether two results were paid alike."""
        text = json.dumps(
            [
                self.version,
                sorted((m, p.prefill, p.sample, p.train) for m, p in self.models.items()),
                self.sandbox_millisecond,
            ]
        )
        return hashlib.sha256(text.encode()).hexdigest()


@cache
def _nominal() -> dict[str, str | int]:
    return json.loads(files("rsigym.platform").joinpath("local_prices.json").read_text())


def local_prices(models: Iterable[str]) -> PriceBook:
    """The nominal prices of this machine's services, the same for each of `models`."""
    nominal = _nominal()
    price = TokenPrice(*(int(nominal[kind]) for kind in ("prefill", "sample", "train")))
    return PriceBook(
        str(nominal["version"]),
        dict.fromkeys(models, price),
        int(nominal["sandbox_millisecond"]),
    )
