"""A training step of the engine against a plain torch loop on the same batch.

The two alternate, so that other load on the machine meets both alike; medians are compared.
Target: at least 0.9 of the plain loop's speed.

    python -m perf.training [--json] [--dtype float32] [--threads N] [--repeats N]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from perf.plain import PlainModel
from rsigym.local.models import DEFAULT, model_folder
from rsigym.local.tinker.engine import AdamSpec, Datum, Engine, LoraSpec

RANK = 16
RATE = 1e-4


def make_batch(sequences: int, length: int, vocab: int) -> list[Datum]:
    """Random tokens; the second half of each sequence is trained, as an answer would be."""
    rng = np.random.default_rng(0)
    data: list[Datum] = []
    for _ in range(sequences):
        tokens = rng.integers(3, vocab, length + 1)
        weights = (np.arange(length) >= length // 2).astype(np.float32)
        inputs = {"target_tokens": tokens[1:], "weights": weights}
        data.append(Datum(tokens[:-1].astype(np.int32), inputs))
    return data


def plain_step(model: PlainModel, data: list[Datum]) -> Callable[[], None]:
    """One step of the plain loop, on tensors made beforehand."""
    optimizer = torch.optim.AdamW(model.parameters, lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)
    tokens = torch.from_numpy(np.stack([datum.tokens for datum in data])).long()
    targets = torch.from_numpy(np.stack([datum.loss_inputs["target_tokens"] for datum in data]))
    weights = torch.from_numpy(np.stack([datum.loss_inputs["weights"] for datum in data]))

    def step() -> None:
        model.loss(tokens, targets, weights).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def engine_step(engine: Engine, data: list[Datum]) -> Callable[[], None]:
    """One step of the engine, as the server asks for it."""
    engine.create("perf", LoraSpec(RANK, seed=0)).result()

    def step() -> None:
        engine.forward_backward("perf", data, "cross_entropy", {})
        engine.optim_step("perf", AdamSpec(RATE)).result()

    return step


def alternate(first: Callable[[], None], second: Callable[[], None], repeats: int) -> list[float]:
    """Median seconds of each, run in turns after one run unmeasured."""
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats + 1):
        for run, kept in zip((first, second), times, strict=True):
            start = time.perf_counter()
            run()
            if repeat:
                kept.append(time.perf_counter() - start)
    return [statistics.median(kept) for kept in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    folder = model_folder(DEFAULT)
    model = PlainModel(folder, getattr(torch, args.dtype), RANK)
    engine = Engine(DEFAULT, folder, dtype=args.dtype, threads=args.threads)
    rows: list[dict[str, float | str]] = []
    for sequences, length in ((8, 64), (4, 128)):
        data = make_batch(sequences, length, model.config["vocab_size"])
        engine.drop("perf").result()
        plain, ours = alternate(plain_step(model, data), engine_step(engine, data), args.repeats)
        rows.append(
            {
                "batch": f"{sequences} x {length}",
                "plain_s": plain,
                "engine_s": ours,
                "ratio": plain / ours,
            }
        )
    engine.close()
    if args.json:
        print(json.dumps({"benchmark": "training", "dtype": args.dtype, "rows": rows}))
        return
    print(f"{'batch':>10} {'plain':>9} {'engine':>9} {'ratio':>6}   ({args.dtype})")
    for row in rows:
        print(
            f"{row['batch']:>10} {row['plain_s']:8.2f}s {row['engine_s']:8.2f}s {row['ratio']:6.2f}"
        )


if __name__ == "__main__":
    main()
