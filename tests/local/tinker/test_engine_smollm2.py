"""The real default model: what the engine says of it is what transformers says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from rsigym.local.models import DEFAULT, model_folder
from rsigym.local.tinker.engine import Engine, SampleSpec
from tests.local.tinker.engine_support import hugging_face

pytestmark = pytest.mark.smollm2

NEW = 8


@pytest.fixture(scope="module")
def folder() -> Path:
    return model_folder(DEFAULT)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    engine = Engine(DEFAULT, folder, dtype="float32")
    yield engine
    engine.close()


def test_greedy_samples_and_prompt_logprobs_of_twenty_prompts_equal_hugging_face(
    engine: Engine, folder: Path
) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    judge = hugging_face(folder)
    questions = [f"What is {i} plus {40 - i}?" + " Explain it." * (i % 4) for i in range(20)]
    prompts = [
        np.array(
            tokenizer.apply_chat_template(
                [{"role": "user", "content": question}],
                add_generation_prompt=True,
                return_dict=False,
            ),
            dtype=np.int32,
        )
        for question in questions
    ]
    end = tokenizer.eos_token_id
    futures = [
        engine.sample(SampleSpec(p, 1, NEW, 0.0, stop_ids=(end,), prompt_logprobs=True), None)
        for p in prompts
    ]
    for prompt, future in zip(prompts, futures, strict=True):
        ids = torch.from_numpy(prompt[None]).long()
        out = judge.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=NEW,
            do_sample=False,
            return_dict_in_generate=True,
        )
        with torch.no_grad():
            logprobs = judge(ids).logits[0, :-1].log_softmax(-1)
        expected = logprobs.gather(1, ids[0, 1:, None])[:, 0]
        result = future.result()
        assert result.samples[0].tokens.tolist() == out.sequences[0, len(prompt) :].tolist()
        assert result.prompt_logprobs is not None
        np.testing.assert_allclose(result.prompt_logprobs[1:], expected, atol=1e-3)
