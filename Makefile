# One word for each thing that a newcomer does. Every target makes its own
# environment, .venv in this folder, and does not touch one that is up to date.
#
#   PYTHON=python3.12 make env     picks the interpreter (3.10 to 3.13)
#   make test ARGS="-k tokenizer"  hands arguments on to pytest

RUN = .venv/bin/python
# TensorFlow's native code stays quiet: a machine without a GPU is no error.
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: help env quickstart test test-slow lint docs bench bench-data clean
.DEFAULT_GOAL := help

help:
	@echo "make quickstart   text to vocabulary to records to a small trained BERT"
	@echo "make env          only the environment, .venv"
	@echo "make test         the tests (make test-slow: those that take minutes)"
	@echo "make lint         ruff, mypy, hadolint, and whether docs/flags.md is current"
	@echo "make docs         writes docs/flags.md from the scripts' --help"
	@echo "make bench        the tables of docs/performance.md and benchmarks/;"
	@echo "                  ARGS= says where the data are and what to measure"
	@echo "make bench-data   TEXT=, VOCAB=: speed of create_pretraining_data.py;"
	@echo "                  ORIGINAL=: a clone of the original to compare with"
	@echo "make clean        removes what the other targets made, except .venv"

env:
	@bash .ci/make_env.sh

# Made anew each time, in quickstart/; on one machine with the same numbers.
# The model memorizes the sample: it has no dropout, and because it is narrow,
# its initial weights have a larger deviation than the released 0.02. The long
# warm-up makes it leave the plateau of guessing only the most frequent words.
FILL_MASK = fill_mask.py --model_dir=quickstart/model/final_model
quickstart: env
	rm -rf quickstart
	@echo; echo "== 1. A vocabulary of word pieces, learned from the text"
	$(RUN) create_vocabulary.py --input_file=sample_text.txt \
	  --output_file=quickstart/vocab.txt --vocab_size=2000 --min_frequency=1
	@echo; echo "== 2. Records: pairs of sentences, 15% of their word pieces masked"
	$(RUN) create_pretraining_data.py --input_file=sample_text.txt \
	  --output_file=quickstart/pretrain.tfrecord \
	  --vocab_file=quickstart/vocab.txt --dupe_factor=40 \
	  --max_seq_length=32 --max_predictions_per_seq=5
	@echo; echo "== 3. Pre-training and evaluation: 2 layers, 128 wide, 2 minutes"
	$(RUN) run_pretraining.py --do_train --do_eval \
	  --input_file=quickstart/pretrain.tfrecord --output_dir=quickstart/model \
	  --bert_config_file=sample_bert_config.json \
	  --vocab_file=quickstart/vocab.txt \
	  --max_seq_length=32 --max_predictions_per_seq=5 \
	  --learning_rate=2e-3 --num_train_steps=2500 --num_warmup_steps=1000 \
	  --eval_batch_size=32 --max_eval_steps=300
	@echo; echo "== 4. Words that fit at [MASK]"
	$(RUN) $(FILL_MASK) \
	  --text="A glacier is a river of [MASK] that has forgotten to hurry." \
	  --text="Zürich lies at the end of a long [MASK], with the Alps behind it."
	@printf "%s\n" "" "quickstart/ now holds" \
	  "  vocab.txt            the vocabulary, one word piece a line" \
	  "  pretrain.tfrecord    the records" \
	  "  model/               checkpoints, eval_results.txt, TensorBoard's values" \
	  "  model/final_model/   weights, configuration and vocabulary together" \
	  "" "Next, type sentences with a [MASK] of your own:" "" \
	  "  $(RUN) $(FILL_MASK)"

# A file's tests share what they train, so that a process takes whole files.
PARALLEL = -n logical --maxprocesses=4 --dist loadfile --no-loadscope-reorder
test:
	@bash .ci/make_env.sh test
	$(RUN) -m pytest $(PARALLEL) $(ARGS)

test-slow:
	@bash .ci/make_env.sh test
	$(RUN) -m pytest -m slow $(PARALLEL) $(ARGS)

lint:
	@bash .ci/make_env.sh lint
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy
	$(RUN) docs/make_flags.py --check
	.venv/bin/hadolint Dockerfile

docs: env
	$(RUN) docs/make_flags.py

bench:
	@bash .ci/make_env.sh bench
	$(RUN) benchmarks/table.py $(ARGS)

bench-data: env
	$(RUN) benchmarks/pretraining_data_speed.py $(if $(TEXT),--text=$(TEXT)) \
	  $(if $(VOCAB),--vocab=$(VOCAB)) \
	  $(if $(ORIGINAL),--original=$(ORIGINAL)) $(ARGS)

clean:
	rm -rf quickstart build dist bert_tf2.egg-info .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -not -path "./.venv/*" -prune -exec rm -rf {} +
