# Every target sets the machine up by itself: see scripts/setup.
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint docs perf lock clean

BIN := .venv/bin
# One torch thread a process: tests run side by side, and torch processes fight over cores.
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

help:  ## What there is
	@sed -n 's/^\([a-z]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup:  ## Make .venv with everything in it
	@scripts/setup

demo: setup  ## One real research episode: train, evaluate, improve, submit
	$(BIN)/rsigym run RSIGym/Joint-Integers-v0 --agent agents/scripted.py --sandbox auto --official-tasks 20

test: setup  ## Every test
	$(TEST_ENV) $(BIN)/python -m pytest -q -n 2 --dist loadscope -m "not smollm2"
	$(BIN)/python -m pytest -q -m smollm2

lint: setup  ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

docs: setup  ## Write the pages that are made from the code
	$(BIN)/python -m rsigym.platform.track_table docs/tracks.md
	PYTHONPATH=. $(BIN)/python -m scripts.calls_page docs/calls.md

perf: setup  ## Measure speed; results belong in perf/README.md
	for script in perf/[a-z]*.py; do OMP_WAIT_POLICY=PASSIVE PYTHONPATH=. $(BIN)/python $$script || exit 1; done

lock: setup  ## Pin the newest packages that pyproject.toml allows
	uv pip compile --quiet --universal --python-version 3.12 --extra all --group dev \
	    --no-header --no-annotate --no-emit-index-url pyproject.toml -o requirements.lock --upgrade

clean:  ## Remove what setup made
	rm -rf .venv .tools
