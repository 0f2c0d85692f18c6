"""Prices from litellm's map: found as litellm finds them, complete or refused, and billed alike."""

import json
import subprocess
import sys
from typing import Any

import pytest

from rsigym.platform.errors import OperatorError
from rsigym.platform.ledger import total
from rsigym.platform.litellm_prices import femto, litellm_price
from rsigym.platform.rollout_price import Rates, Usage


def rates(read: float, cached: float, written: float, output: float) -> Rates:
    return Rates(*(femto(usd, 10**6) for usd in (read, cached, written, output, output)))


def test_a_price_is_found_with_and_without_its_provider() -> None:
    price = litellm_price("openai/gpt-4o-mini")
    assert price == litellm_price("gpt-4o-mini")
    assert price.tiers == ((-1, rates(0.15, 0.075, 0.15, 0.6)),)
    assert (price.context, price.max_output) == (128_000, 16_384)
    # The map has a price for gpt-4o-mini, but not at this provider.
    with pytest.raises(OperatorError, match="no complete price"):
        litellm_price("ovhcloud/gpt-4o-mini")


def test_writing_to_the_cache_has_its_own_price_where_a_provider_has_one() -> None:
    assert litellm_price("anthropic/claude-sonnet-4-5").tiers == ((-1, rates(3, 0.3, 3.75, 15)),)


def test_long_prompts_are_dearer_as_the_map_says() -> None:
    assert litellm_price("gemini/gemini-2.5-pro").tiers == (
        (-1, rates(1.25, 0.125, 1.25, 10)),
        (200_000, rates(2.5, 0.25, 2.5, 15)),
    )
    assert [above for above, _ in litellm_price("dashscope/qwen3-max").tiers] == [
        -1,
        32_000,
        128_000,
    ]
    # xAI's dearer tier begins with its threshold.
    assert [above for above, _ in litellm_price("xai/grok-4.3").tiers] == [-1, 199_999]


@pytest.mark.parametrize(
    "model",
    [
        "openai/not-in-the-map",
        # No price for tokens, zeros for tokens, a price for each request.
        "azure_ai/model_router",
        "perplexity/sonar-small-online",
        # Searches, and bills each search.
        "perplexity/sonar",
        "gpt-4o-search-preview",
        "azure/eu/o3-deep-research",
        # Not a chat model.
        "text-embedding-3-small",
        "sample_spec",
        "",
    ],
)
def test_a_model_without_a_complete_price_is_refused_by_name(model: str) -> None:
    with pytest.raises(OperatorError, match="no complete price") as refused:
        litellm_price(model)
    assert repr(model) in str(refused.value)


def test_no_zero_of_the_map_is_a_price() -> None:
    # deepseek-chat's entry says that writing to the cache is free.
    (_, found), *_ = litellm_price("deepseek/deepseek-chat").tiers
    assert found.cache_write == found.input == femto(2.8e-07)


@pytest.mark.parametrize(
    ("usd", "tokens", "price"),
    [
        (1.5e-07, 1, 150_000_000),
        (8.75e-09, 1, 8_750_000),
        (0.1, 10**6, 100_000_000),
        (1 / 3e6, 1, 333_333_334),
        (1e-20, 1, 1),
        (3, 10**6, 3_000_000_000),
    ],
)
def test_a_price_is_the_decimal_that_was_written_rounded_up(
    usd: float, tokens: int, price: int
) -> None:
    assert femto(usd, tokens) == price


def test_the_map_is_read_without_importing_litellm() -> None:
    script = (
        "import sys; from rsigym.platform.litellm_prices import litellm_price\n"
        "litellm_price('gpt-4o-mini'); print('litellm' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


COMPARED = [
    "openai/gpt-4o-mini",
    "openai/gpt-5.5",
    "anthropic/claude-sonnet-4-5",
    "anthropic/claude-opus-4-8",
    "gemini/gemini-2.5-pro",
    "vertex_ai/claude-sonnet-4-5",
    "dashscope/qwen3-coder-plus",
    "dashscope/qwen-turbo",
    "xai/grok-4.3",
    "mistral/mistral-large-latest",
]
TOKENS = [(900, 0, 0, 50, 0), (40_000, 30_000, 0, 50, 20), (300_000, 100_000, 0, 9_000, 8_000)]
WRITTEN = [(40_000, 10_000, 20_000, 50, 0)]

LITELLM = """
import json, sys, litellm
for model, (prompt, cached, written, completion, reasoning) in json.load(sys.stdin):
    usage = litellm.Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details={"cached_tokens": cached, "cache_creation_tokens": written},
        completion_tokens_details={"reasoning_tokens": reasoning},
    )
    response = litellm.ModelResponse(model=model, usage=usage)
    print(litellm.completion_cost(completion_response=response, model=model))
"""


def test_bills_are_what_litellm_computes() -> None:
    cases: list[tuple[str, Any]] = [(model, told) for model in COMPARED for told in TOKENS]
    cases += [(model, told) for model in COMPARED if "claude" in model for told in WRITTEN]
    ran = subprocess.run(
        [sys.executable, "-c", LITELLM],
        input=json.dumps(cases),
        env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = [float(line) for line in ran.stdout.split()]
    for (model, told), usd in zip(cases, theirs, strict=True):
        ours = total(litellm_price(model).bill(Usage(*told)))
        assert ours == pytest.approx(usd * 1e9, abs=2), (model, told)
