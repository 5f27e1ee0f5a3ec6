# One word for each thing that a newcomer does. Every target makes its own
# environment, .venv in this folder, and does not touch one that is up to date.
#
#   PYTHON=python3.12 make env     picks the interpreter (3.10, 3.11 or 3.12)
#   make test ARGS="-k tokenizer"  hands arguments on to pytest

RUN = .venv/bin/python
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: help env quickstart test test-slow lint bench-data clean
.DEFAULT_GOAL := help

help:
	@echo "make quickstart   text to vocabulary to records to a small trained BERT"
	@echo "make test         the tests (make test-slow: those that take minutes)"
	@echo "make lint         ruff, with the rules of ruff.toml"
	@echo "make env          only the environment, .venv"
	@echo "make bench-data   TEXT=, VOCAB=: speed of create_pretraining_data.py;"
	@echo "                  ORIGINAL=: a clone of the original to compare with"
	@echo "make clean        removes what the other targets made, except .venv"

env:
	@bash make_env.sh

test:
	@bash make_env.sh test
	$(RUN) -m pytest $(ARGS)

test-slow:
	@bash make_env.sh test
	$(RUN) -m pytest -m slow $(ARGS)

lint:
	@bash make_env.sh lint
	$(RUN) -m ruff check .

clean:
	rm -rf quickstart build dist bert_tf2.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path "./.venv/*" -exec rm -rf {} +
