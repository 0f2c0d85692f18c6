"""Concurrent chats behind one long prefix: first token, throughput, and what a prefix cache gains.

All chats begin with the same 500 tokens, a system prompt, and end with a question of their own.
Their answers are short, as calls and numbers are. The same is measured with prefixes that have
nothing in common, which no cache can help: the ratio is the cache's gain, whatever cache the
endpoint has. Tinker does not stream, so the first token of a chat is there when a chat of one token
is. Chats of the whole service, over HTTP, are compared with a plain static batch of as many rows of
the same length, which is run right after them: the machine's load changes. Targets: a gain of 2 at
8 chats and more, 0.9 of the static batch's tokens a second.

The static batch's threads must sleep while they wait, as the server's do, or a busy machine slows
it many times. 32 chats take longer than all else and are measured when they are asked for.

    OMP_WAIT_POLICY=PASSIVE python -m perf.inference [--json] [--dtype float32] [--threads N]
        [--chats 1 8 32]
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from perf.plain import PlainModel
from rsigym.local import tinker_server
from rsigym.local.models import DEFAULT, model_folder
from rsigym.operations.chat import InstructionMessage
from rsigym.operations.inference import InferenceChat
from rsigym.platform.memory_ledger import MemoryLedger
from rsigym.platform.meter import Meter
from rsigym.platform.prices import local_prices
from rsigym.services.chat import Ask
from rsigym.services.inference import InferenceService
from rsigym.services.loop import BackgroundLoop
from rsigym.services.tinker_client import TinkerClient

PREFIX, NEW = 500, 16
WORDS = ("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--chats", type=int, nargs="+", default=[1, 8])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = PlainModel(model_folder(DEFAULT), getattr(torch, args.dtype))
    with (
        tempfile.TemporaryDirectory() as store,
        tinker_server(store=Path(store), dtype=args.dtype, threads=args.threads) as server,
    ):
        client, loop = TinkerClient(lambda: (server.url, server.api_key)), BackgroundLoop()
        service = InferenceService(client, local_prices([DEFAULT]), [DEFAULT], loop, lambda _: None)
        service.ready(DEFAULT)
        bench = Bench(service, loop, model)
        # Once for nothing: the first pass of either side takes memory that later ones find.
        bench.row(1)
        rows = [bench.row(chats) for chats in args.chats]
        loop.close()
        client.close()
    if args.json:
        print(json.dumps({"benchmark": "inference", "dtype": args.dtype, "rows": rows}))
        return
    print(f"{PREFIX} tokens of prefix, {NEW} new tokens, {args.dtype}")
    print("chats  first token s (own prefixes)  gain   tokens/s (own, static)  gain  of static")
    for row in rows:
        print(
            f"{row['chats']:5.0f}  {row['shared_first_s']:8.2f} ({row['distinct_first_s']:.2f})"
            f"{row['first_gain']:18.2f}   {row['shared_tokens_per_s']:6.1f} "
            f"({row['distinct_tokens_per_s']:.1f}, {row['static_tokens_per_s']:.1f})"
            f"{row['gain']:8.2f}  {row['of_static']:.2f}"
        )


class Bench:
    """Chats through the service. Every run has prefixes of its own, so that none finds another's.

    Args:
        service: With the default model.
        loop: Where the chats are waited for.
        model: What the static batch is computed with.
    """

    def __init__(self, service: InferenceService, loop: BackgroundLoop, model: PlainModel):
        self._service = service
        self._loop = loop
        self._model = model
        self._random = np.random.default_rng(0)
        ledger = MemoryLedger()
        ledger.open("perf", None)
        ledger.hold("perf", "chats", 0)
        self._meter = Meter(ledger, "perf", "chats")

    def row(self, chats: int) -> dict[str, float]:
        """Everything about so many chats at once."""
        row: dict[str, float] = {"chats": chats}
        for name, shared in (("shared", True), ("distinct", False)):
            row[f"{name}_first_s"] = self.seconds(chats, 1, shared=shared)
            row[f"{name}_tokens_per_s"] = chats * NEW / self.seconds(chats, NEW, shared=shared)
        row["first_gain"] = row["distinct_first_s"] / row["shared_first_s"]
        row["gain"] = row["shared_tokens_per_s"] / row["distinct_tokens_per_s"]
        row["static_tokens_per_s"] = static_tokens_per_s(self._model, chats)
        row["of_static"] = row["distinct_tokens_per_s"] / row["static_tokens_per_s"]
        return row

    def seconds(self, chats: int, tokens: int, *, shared: bool) -> float:
        """Until the last of the chats, begun together, has its tokens."""
        prefixes = [self._prefix()] * chats if shared else [self._prefix() for _ in range(chats)]
        asks = [self._ask(prefix, tokens) for prefix in prefixes]
        start = time.perf_counter()
        self._loop.run(self._answer(asks))
        return time.perf_counter() - start

    async def _answer(self, asks: Sequence[Ask]) -> None:
        await asyncio.gather(*(ask.answer(self._meter) for ask in asks))

    def _prefix(self) -> str:
        return " ".join(self._random.choice(WORDS, PREFIX))

    def _ask(self, prefix: str, tokens: int) -> Ask:
        question = " ".join(self._random.choice(WORDS, 12))
        request = InferenceChat(
            model=DEFAULT,
            messages=[
                InstructionMessage(role="system", content=prefix),
                InstructionMessage(role="user", content=question),
            ],
            max_tokens=tokens,
        )
        return self._service.ask(request)


def static_tokens_per_s(model: PlainModel, rows: int) -> float:
    """New tokens a second of one static batch whose prompts are as long."""
    prompts = torch.from_numpy(np.random.default_rng(0).integers(3, 49152, (rows, PREFIX + 24)))
    start = time.perf_counter()
    model.generate(prompts, NEW)
    return rows * NEW / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
