"""Validating a file of chats, as training.submit does before anything is paid, against tokenizing.

The yardstick is the tokenizer's own `encode_batch` on the same rendered texts, without reading,
checking, rendering or writing anything. The two take turns over parts of the file, so that other
load on the machine meets both alike. CPU time is compared too: both use every core to tokenize.
Memory is the most that a process of its own has for a tenth of a file, and for the whole.

    python -m perf.data [--json] [--megabytes N]
"""

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from rsigym.local.models import DEFAULT, model_folder
from rsigym.operations.training import TrainingConfig
from rsigym.services.template_renderer import TemplateRenderer
from rsigym.services.training_data import open_data
from rsigym.services.training_plan import make_plan
from rsigym.services.training_records import Chats
from rsigym.services.workspace_files import Workspace

SPEED_MB = 20
PARTS = 10
TEXT = (
    "what is the number of apples that Tom has when he buys three boxes with seven in each and "
    "eats two before he gets home answer in one line print count file Python return France Paris"
)


def chats(size: int, seed: int) -> Iterator[str]:
    """Lines of about 600 bytes, `size` bytes in all: a question and an answer each."""
    chance, vocabulary = random.Random(seed), TEXT.split()

    def text(least: int, most: int) -> str:
        words = chance.choices(vocabulary, k=chance.randrange(least, most))
        return " ".join([*words, str(chance.randrange(10_000))]) + "."

    while size > 0:
        asked = {"role": "user", "content": text(20, 120)}
        told = {"role": "assistant", "content": text(5, 60)}
        line = json.dumps({"messages": [asked, told]}) + "\n"
        size -= len(line)
        yield line


def timed(run: Callable[[], Any], total: list[float]) -> None:
    """Add to `total` the seconds that it takes by the clock, and of all cores."""
    start, start_cpu = time.perf_counter(), time.process_time()
    run()
    total[0] += time.perf_counter() - start
    total[1] += time.process_time() - start_cpu


def measure(folder: Path) -> dict[str, float]:
    """Speed of both, in turns."""
    tokenizer: Any = AutoTokenizer.from_pretrained(model_folder(DEFAULT))
    renderer = TemplateRenderer(tokenizer)

    def tokenize(texts: list[str]) -> None:
        tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)

    validating, tokenizing = [0.0, 0.0], [0.0, 0.0]
    for seed in range(PARTS):
        part = list(chats(SPEED_MB * 2**20 // PARTS, seed))
        (folder / "part.jsonl").write_text("".join(part))
        timed(lambda: validate(folder / "part.jsonl", renderer), validating)
        said = [json.loads(line)["messages"] for line in part]
        texts = tokenizer.apply_chat_template(said, tokenize=False)
        timed(lambda texts=texts: tokenize(texts), tokenizing)
    return {
        "mb_per_s": SPEED_MB / validating[0],
        "mb_per_cpu_s": SPEED_MB / validating[1],
        "ratio": tokenizing[0] / validating[0],
        "cpu_ratio": tokenizing[1] / validating[1],
    }


def validate(file: Path, renderer: TemplateRenderer) -> None:
    config = TrainingConfig()
    reader = Chats(renderer, config.train_on_what, "unread")
    data = open_data(file.name, Workspace(file.parent))
    make_plan(data, config, reader, context=2048, passes=1, folder=file.parent).data.close()


def validated_alone(file: Path) -> dict[str, float]:
    """What it takes in a process that does nothing else: seconds, and MB at most."""
    renderer = TemplateRenderer(AutoTokenizer.from_pretrained(model_folder(DEFAULT)))
    total = [0.0, 0.0]
    timed(lambda: validate(file, renderer), total)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": total[0], "cpu_seconds": total[1], "peak_mb": peak_mb}


def memory(folder: Path, megabytes: int) -> dict[str, dict[str, float]]:
    """Validating a tenth of a file, and the whole of it."""
    result: dict[str, dict[str, float]] = {}
    for name, size in (("tenth", megabytes * 2**20 // 10), ("whole", megabytes * 2**20)):
        with (folder / f"{name}.jsonl").open("w") as file:
            file.writelines(chats(size, seed=0))
        with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
            result[name] = fresh.submit(validated_alone, folder / f"{name}.jsonl").result()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--megabytes", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder))
        alone = memory(Path(folder), args.megabytes)
    if args.json:
        print(json.dumps(result | alone))
        return
    tenth, whole = alone["tenth"], alone["whole"]
    print(
        f"validated {result['mb_per_s']:.2f} MB/s, {result['mb_per_cpu_s']:.2f} a second of CPU "
        f"time; {result['ratio']:.2f} of encode_batch's speed, {result['cpu_ratio']:.2f} in CPU "
        f"time; {args.megabytes} MB in {whole['seconds']:.0f} s with {whole['peak_mb']:.0f} MB at "
        f"most, a tenth of it with {tenth['peak_mb']:.0f} MB"
    )


if __name__ == "__main__":
    main()
