"""32 concurrent samples through the engine against one static batch of 32.

The engine is asked for 32 single samples at once, as 32 clients would; the static batch decodes the
same prompts in one tensor, all of one length. Both are greedy and write the same number of tokens.
The two alternate; medians are compared. Target: at least 0.9 of the static batch's speed.

    python -m perf.sampling [--json] [--dtype float32] [--threads N] [--repeats N]
"""

import argparse
import json

import numpy as np
import torch

from perf.plain import PlainModel
from perf.training import alternate
from rsigym.local.models import DEFAULT, model_folder
from rsigym.local.tinker.engine import Engine, SampleSpec

ROWS, PROMPT, NEW = 32, 48, 48


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    folder = model_folder(DEFAULT)
    model = PlainModel(folder, getattr(torch, args.dtype))
    engine = Engine(DEFAULT, folder, dtype=args.dtype, threads=args.threads)
    prompts = np.random.default_rng(0).integers(3, 49152, (ROWS, PROMPT))

    def static() -> None:
        model.generate(torch.from_numpy(prompts), NEW)

    def concurrent() -> None:
        futures = [
            engine.sample(SampleSpec(prompt.astype(np.int32), 1, NEW, 0.0), None)
            for prompt in prompts
        ]
        for future in futures:
            future.result()

    plain, ours = alternate(static, concurrent, args.repeats)
    engine.close()
    tokens = ROWS * NEW
    result = {
        "benchmark": "sampling",
        "dtype": args.dtype,
        "static_tokens_per_s": tokens / plain,
        "engine_tokens_per_s": tokens / ours,
        "ratio": plain / ours,
    }
    if args.json:
        print(json.dumps(result))
        return
    print(f"{ROWS} samples, {PROMPT} prompt tokens, {NEW} new tokens, {args.dtype}")
    print(f"static batch {tokens / plain:7.0f} tokens/s")
    print(f"engine       {tokens / ours:7.0f} tokens/s   ratio {plain / ours:.2f}")


if __name__ == "__main__":
    main()
