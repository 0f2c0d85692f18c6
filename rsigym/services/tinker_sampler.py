"""Sampling from one model of a Tinker endpoint."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsigym.services.tinker_link import Link

if TYPE_CHECKING:
    import tinker
    from tinker.types import SampleResponse
    from transformers import PreTrainedTokenizerBase

__all__ = ["Sampler"]


class Sampler:
    """A base model or a sampler checkpoint, ready to sample from.

    Attributes:
        base_model: The name of the (adapted) base model.
    """

    def __init__(self, client: "tinker.SamplingClient", link: Link):
        self._client = client
        self._link = link
        self.base_model = client.get_base_model()

    async def sample(
        self,
        prompt: Sequence[int],
        *,
        n: int,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int | None,
        stop: list[int] | list[str],
        top_logprobs: int = 0,
    ) -> "SampleResponse":
        """`n` completions of `prompt`, with the token that ended them and each token's logprob.

        Args:
            top_logprobs: How many likely tokens come with each, with their logprobs. Not every
                endpoint has them.
        """
        from tinker.types import ModelInput, SamplingParams

        return await self._link.wait_async(
            self._client.sample(
                ModelInput.from_ints(list(prompt)),
                num_samples=n,
                sampling_params=SamplingParams(
                    max_tokens=max_tokens,
                    temperature=temperature,
                    top_p=top_p,
                    seed=seed,
                    stop=stop,
                ),
                topk_sample_logprobs=top_logprobs,
            )
        )

    def tokenizer(self) -> "PreTrainedTokenizerBase":
        return self._client.get_tokenizer()
