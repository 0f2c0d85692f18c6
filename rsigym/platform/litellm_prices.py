"""Prices of frontier models from the map that comes with litellm, read without importing litellm.

Who has no complete price there is refused by name. A zero in the map says that nobody looked, not
that a model is free: it counts as no price. Rates are the standard ones: calls ask for no other
service tier, and discounts for off-peak hours are not taken. An operator whose own endpoint has an
uplift (a region, FedRAMP, a priority tier) gives the price with the model.
"""

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rsigym.platform.errors import OperatorError
from rsigym.platform.rollout_price import Rates, RolloutPrice

__all__ = ["femto", "litellm_price"]

_MAP = "model_prices_and_context_window_backup.json"
_KINDS = {
    "input_cost_per_token": "input",
    "cache_read_input_token_cost": "cached_input",
    "cache_creation_input_token_cost": "cache_write",
    "output_cost_per_token": "output",
    "output_cost_per_reasoning_token": "reasoning",
}
_FAMILIES = ("bedrock", "fireworks_ai", "vertex_ai")
"""Providers whose entries name a family of models too, such as vertex_ai-anthropic_models."""
_LONG = re.compile(rf"({'|'.join(_KINDS)})_above_(\d+)(k?)_tokens")
_MORE_THAN_TOKENS = ("input_cost_per_request", "input_cost_per_second", "citation_cost_per_token")
_SEARCHES = re.compile(r"^perplexity/|(^|[-/])(deep-re)?search(-|$)")
"""Models that search by themselves: each search is billed, and tokens do not tell how many."""


def femto(usd: float, tokens: int = 1) -> int:
    """Femto-USD a token, rounded up, of a price in USD for so many tokens.

    The price is the decimal number that was written down, not the binary one next to it.
    """
    return math.ceil(Decimal(repr(usd)) * 10**15 / tokens)


def litellm_price(model: str) -> RolloutPrice:
    """The price of a model by its litellm name, such as `anthropic/claude-sonnet-5`.

    Raises:
        OperatorError: The map has no complete price of it.
    """
    entry = _entry(model)
    tiers = _tiers(entry)
    incomplete = any(entry.get(charge) is not None for charge in _MORE_THAN_TOKENS)
    if not tiers or incomplete or _SEARCHES.search(model):
        raise OperatorError(
            f"rollout model {model!r} has no complete price in litellm's map, so it cannot be "
            'used: give it one, {"price": {"input": …, "output": …}} in USD per million tokens'
        )
    return RolloutPrice(
        tuple(tiers), _limit(entry, "max_input_tokens"), _limit(entry, "max_output_tokens")
    )


@cache
def _map() -> dict[str, dict[str, Any]]:
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        raise OperatorError("rollout models need litellm: run `pip install 'rsigym[local]'`")
    return json.loads((Path(spec.origin).parent / _MAP).read_text(encoding="utf-8"))


def _entry(model: str) -> Mapping[str, Any]:
    """The model's entry; empty if there is none.

    As litellm looks: by the whole name, then without the provider, if the entry is of that one.
    """
    provider, _, bare = model.partition("/")
    for name in (model, bare):
        entry = _map().get(name, {})
        if entry.get("mode") == "chat" and (name == model or _is_of(entry, provider)):
            return entry
    return {}


def _is_of(entry: Mapping[str, Any], provider: str) -> bool:
    owner = str(entry.get("litellm_provider"))
    return owner == provider or (provider in _FAMILIES and owner.startswith(provider))


def _tiers(entry: Mapping[str, Any]) -> list[tuple[int, Rates]]:
    """The tiers of an entry; none if a price is missing in any."""
    if listed := entry.get("tiered_pricing"):
        found = [(int(tier["range"][0]) or -1, _published(tier)) for tier in listed]
    else:
        found = [(-1, _published(entry))]
        for threshold, dearer in sorted(_long(entry).items()):
            found.append((threshold, found[-1][1] | dearer))
    if not all({"input", "output"} <= published.keys() for _, published in found):
        return []
    return [(threshold, _rates(published)) for threshold, published in sorted(found)]


def _published(prices: Mapping[str, Any]) -> dict[str, int]:
    """Femto-USD a token by kind, of all that have a price."""
    return {kind: femto(prices[key]) for key, kind in _KINDS.items() if _is_price(prices.get(key))}


def _long(entry: Mapping[str, Any]) -> dict[int, dict[str, int]]:
    """What prompts cost that are longer than a number of tokens, by that number."""
    found: dict[int, dict[str, int]] = {}
    for key, usd in entry.items():
        match = _LONG.fullmatch(key)
        if match and _is_price(usd):
            threshold = int(match[2]) * (1000 if match[3] else 1)
            # xAI's tier begins with the threshold, everybody else's above it.
            threshold -= entry.get("litellm_provider") == "xai"
            found.setdefault(threshold, {})[_KINDS[match[1]]] = femto(usd)
    return found


def _rates(published: Mapping[str, int]) -> Rates:
    """Where a cache or reasoning has no price of its own, it costs what other tokens do."""
    read, written = published["input"], published["output"]
    return Rates(
        input=read,
        cached_input=published.get("cached_input", read),
        cache_write=published.get("cache_write", read),
        output=written,
        reasoning=published.get("reasoning", written),
    )


def _is_price(usd: object) -> bool:
    return type(usd) in (int, float) and 0 < usd < 1  # pyright: ignore[reportOperatorIssue]


def _limit(entry: Mapping[str, Any], name: str) -> int | None:
    limit = entry.get(name)
    return limit if type(limit) is int and limit > 0 else None
