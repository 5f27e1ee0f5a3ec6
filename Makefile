# A target creates the environment that it needs, .venv in this folder, or
# updates it if pyproject.toml changed.
#
#   PYTHON=python3.12 make env     uses this interpreter (3.10 to 3.13)
#   make test ARGS="-k tokenizer"  passes arguments to pytest

RUN = .venv/bin/python
# Hide messages of TensorFlow's native code, such as the lack of a GPU.
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: help env quickstart test test-slow lint docs bench bench-data clean
.DEFAULT_GOAL := help

help:
	@echo "make quickstart   makes a vocabulary and records, and trains a small BERT"
	@echo "make env          creates or updates the environment, .venv"
	@echo "make test         runs the tests (make test-slow: the slow tests)"
	@echo "make lint         runs ruff, mypy and hadolint, and checks docs/flags.md"
	@echo "make docs         writes docs/flags.md from the scripts' --help"
	@echo "make bench        measures the tables of docs/performance.md;"
	@echo "                  ARGS= has the data's folder and the chosen tables"
	@echo "make bench-data   measures create_pretraining_data.py on TEXT= and VOCAB=;"
	@echo "                  ORIGINAL= is a clone of the original to compare with"
	@echo "make clean        removes the other targets' files, except .venv"

env:
	@bash .ci/make_env.sh

# Each run replaces quickstart/, and gets the same numbers on the same machine.
# The model memorizes the sample: it has no dropout, and its initial weights have
# a larger standard deviation than the released models' 0.02, because it is
# narrow. Without the long warm-up, it would only learn the most frequent words.
FILL_MASK = fill_mask.py --model_dir=quickstart/model/final_model
quickstart: env
	rm -rf quickstart
	@echo; echo "== 1. Learn a vocabulary of word pieces from the text"
	$(RUN) create_vocabulary.py --input_file=sample_text.txt \
	  --output_file=quickstart/vocab.txt --vocab_size=2000 --min_frequency=1
	@echo; echo "== 2. Write records: pairs of sentences with 15% of their word pieces masked"
	$(RUN) create_pretraining_data.py --input_file=sample_text.txt \
	  --output_file=quickstart/pretrain.tfrecord \
	  --vocab_file=quickstart/vocab.txt --dupe_factor=40 \
	  --max_seq_length=32 --max_predictions_per_seq=5
	@echo; echo "== 3. Pre-train and evaluate 2 layers of width 128, in about 2 minutes"
	$(RUN) run_pretraining.py --do_train --do_eval \
	  --input_file=quickstart/pretrain.tfrecord --output_dir=quickstart/model \
	  --bert_config_file=sample_bert_config.json \
	  --vocab_file=quickstart/vocab.txt \
	  --max_seq_length=32 --max_predictions_per_seq=5 \
	  --learning_rate=2e-3 --num_train_steps=2500 --num_warmup_steps=1000 \
	  --eval_batch_size=32 --max_eval_steps=300
	@echo; echo "== 4. Fill in [MASK]"
	$(RUN) $(FILL_MASK) \
	  --text="A glacier is a river of [MASK] that has forgotten to hurry." \
	  --text="Zürich lies at the end of a long [MASK], with the Alps behind it."
	@printf "%s\n" "" "quickstart/ now holds" \
	  "  vocab.txt            the vocabulary, one word piece per line" \
	  "  pretrain.tfrecord    the records" \
	  "  model/               checkpoints, eval_results.txt, files for TensorBoard" \
	  "  model/final_model/   weights, configuration and vocabulary together" \
	  "" "To fill in your own sentences with [MASK], run" "" \
	  "  $(RUN) $(FILL_MASK)"

# The tests of a file share trained models, so each process runs whole files.
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
