"""Tokens are drawn from the distribution that temperature, top_k and top_p describe."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from rsigym.local.tinker.choice import choose
from rsigym.local.tinker.specs import SampleSpec

PROMPT = np.array([1], dtype=np.int32)


def expected_distribution(logits: np.ndarray, spec: SampleSpec) -> np.ndarray:
    """The textbook definition: keep the k likeliest, then the smallest set with mass top_p."""
    scaled = np.exp((logits - logits.max()) / spec.temperature)
    order = np.argsort(-scaled)
    if spec.top_k > 0:
        scaled[order[spec.top_k :]] = 0
    probabilities = scaled / scaled.sum()
    mass = np.cumsum(probabilities[order])
    kept = order[: int(np.searchsorted(mass, spec.top_p)) + 1] if spec.top_p < 1 else order
    masked = np.zeros_like(probabilities)
    masked[kept] = probabilities[kept]
    return masked / masked.sum()


@given(
    seed=st.integers(0, 10_000),
    vocab=st.sampled_from([5, 40, 2000]),
    temperature=st.floats(0.2, 3),
    top_k=st.sampled_from([-1, 1, 3, 700]),
    top_p=st.sampled_from([1.0, 0.3, 0.9, 0.999]),
)
def test_a_drawn_token_is_allowed_and_has_the_models_own_logprob(
    seed: int, vocab: int, temperature: float, top_k: int, top_p: float
) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=vocab) * 3
    spec = SampleSpec(PROMPT, temperature=temperature, top_k=top_k, top_p=top_p)
    rows = torch.tensor(np.stack([logits] * 4), dtype=torch.float32)
    tokens, logprobs = choose(rows, [spec] * 4, [rng] * 4)
    allowed = expected_distribution(logits, spec)
    # A token at the very edge of top_p may fall either way in single precision.
    edge = np.sort(allowed[allowed > 0])[0] * 1.001
    plain = torch.tensor(logits).log_softmax(0)
    for token, logprob in zip(tokens, logprobs, strict=True):
        assert allowed[token] > 0 or np.exp(plain[token]) < edge
        assert abs(logprob - plain[token]) < 1e-4


def test_frequencies_follow_the_distribution() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 1.5])
    draws = 4000
    for spec in (
        SampleSpec(PROMPT, temperature=1.0),
        SampleSpec(PROMPT, temperature=0.5),
        SampleSpec(PROMPT, temperature=1.0, top_k=3),
        SampleSpec(PROMPT, temperature=1.0, top_p=0.8),
        SampleSpec(PROMPT, temperature=2.0, top_k=4, top_p=0.9),
    ):
        generator = np.random.default_rng(0)
        tokens, _ = choose(logits.expand(draws, -1), [spec] * draws, [generator] * draws)
        found = np.bincount(tokens, minlength=5) / draws
        np.testing.assert_allclose(found, expected_distribution(logits.numpy(), spec), atol=0.03)


def test_a_rows_draw_does_not_depend_on_its_company() -> None:
    rng = np.random.default_rng(0)
    logits = torch.tensor(rng.normal(size=(6, 300)), dtype=torch.float32)
    specs = [
        SampleSpec(PROMPT, temperature=temperature, top_p=top_p)
        for temperature, top_p in ((0, 1), (1, 1), (0.7, 0.9), (1, 1), (0, 0.5), (2, 0.99))
    ]
    together, _ = choose(logits, specs, [np.random.default_rng(i) for i in range(6)])
    for i, spec in enumerate(specs):
        alone, _ = choose(logits[i : i + 1], [spec], [np.random.default_rng(i)])
        assert alone == together[i : i + 1]
