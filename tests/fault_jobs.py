"""Small jobs of every script that writes, for fault_runs."""

import json
import pathlib

import fault_runs
import modeling
import tiny_model
from checkpoints import weight_files

DATA = pathlib.Path(__file__).parent / "data"
GOLDEN = pathlib.Path(__file__).parent / "golden"
MODEL = GOLDEN / "pretraining_run" / "model"
SHAPE = {
  "hidden_size": 8,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 8,
  "max_position_embeddings": 64,
  "initializer_range": 0.02,
}
# The tokens of the golden model; enough for all texts below.
WORDS = "the keeper lamp of light ##s is a . , ship and tall mast".split()
TRAINING = {
  "do_train": True,
  "learning_rate": 1e-3,
  "jit_compile": "false",
  "log_steps": 1,
  "output_dir": "{out}/run",
}


def jobs(folder: pathlib.Path) -> list[fault_runs.Job]:
  """Writes the jobs' inputs into a folder; returns the jobs."""
  text = folder / "text.txt"
  text.write_text(
    "The tall mast of the ship.\nA lamp is light.\n\nThe keeper, a ship.\n"
    "The lamps of the keeper and the tall ships.\n\nA ship is tall.\n" * 4
  )
  model = tiny_model.write_shape(folder, WORDS, **SHAPE)
  config = modeling.BertConfig.from_json_file(str(model["bert_config_file"]))
  weight_files.write_tf1(
    str(folder / "bert_model.ckpt"),
    weight_files.by_name(modeling.BertModel(config).variables),
  )
  golden = {
    "bert_config_file": MODEL / "bert_config.json",
    "vocab_file": MODEL / "vocab.txt",
    "init_checkpoint": MODEL / "bert_model.ckpt",
  }
  export = {**golden, "max_seq_length": 16, "export_dir": "{out}/model"}
  return [
    fault_runs.Job(
      "vocabulary",
      "create_vocabulary.py",
      {
        "input_file": text,
        "output_file": "{out}/new/vocab.txt",
        "vocab_size": 60,
        "min_frequency": 1,
      },
    ),
    fault_runs.Job("records", "create_pretraining_data.py", _records(folder)),
    _pretraining(folder, model),
    _classifier(folder, model),
    _tagging(folder, model),
    _squad(folder, model),
    fault_runs.Job(
      "vectors",
      "extract_features.py",
      {
        **golden,
        "input_file": text,
        "output_file": "{out}/vectors.npz",
        "output_format": "npz",
        "pooling": "mean",
        "max_seq_length": 16,
      },
    ),
    fault_runs.Job(
      "conversion",
      "convert_checkpoint.py",
      {"input": MODEL, "output": "{out}/converted", "to": "huggingface"},
    ),
    fault_runs.Job(
      "saved model",
      "export_saved_model.py",
      {
        **export,
        **model,
        "head": "embedding",
        "pooling": "mean",
        "init_checkpoint": folder,
        "version": 1,
      },
      limit=12,
    ),
    fault_runs.Job(
      "onnx",
      "export_saved_model.py",
      {**export, "head": "masked_lm", "format": "onnx"},
    ),
    fault_runs.Job(
      "litert",
      "export_saved_model.py",
      {**export, "head": "masked_lm", "format": "litert"},
      limit=12,
    ),
  ]


def _records(folder):
  return {
    "input_file": folder / "text.txt",
    "output_file": "{out}/text.tfrecord",
    "vocab_file": folder / "vocab.txt",
    "max_seq_length": 32,
    "max_predictions_per_seq": 4,
    "dupe_factor": 1,
    "shard_size_mb": 0.00005,
  }


def _pretraining(folder, model):
  config = json.loads(model["bert_config_file"].read_text())
  path = folder / "released_size.json"
  path.write_text(json.dumps({**config, "vocab_size": 100}))
  flags = {
    **TRAINING,
    "input_file": GOLDEN / "pretraining_run" / "a.tfrecord",
    "bert_config_file": path,
    "max_seq_length": 64,
    "max_predictions_per_seq": 10,
    "train_batch_size": 2,
    "num_warmup_steps": 1,
    "num_train_steps": 4,
    "save_checkpoints_steps": 2,
  }
  return fault_runs.Job(
    "pre-training", "run_pretraining.py", flags, eagerly=True
  )


def _classifier(folder, model):
  table = folder / "texts.csv"
  rows = [f"{text} ship,{label}" for text, label in [("tall", 1), ("a", 0)] * 4]
  table.write_text("\n".join(["text,label", *rows]) + "\n")
  flags = {
    **TRAINING,
    **model,
    "do_eval": True,
    "do_predict": True,
    "train_file": table,
    "eval_file": table,
    "predict_file": table,
    "text_column": "text",
    "label_column": "label",
    "max_seq_length": 8,
    "train_batch_size": 2,
    "save_checkpoints_steps": 2,
    "eval_steps": 2,
    "save_best": "loss",
  }
  return fault_runs.Job(
    "classifier",
    "run_classifier.py",
    {**flags, "num_train_epochs": 2},
    before={**flags, "num_train_epochs": 1},
    eagerly=True,
  )


def _tagging(folder, model):
  table = folder / "tags.conll"
  table.write_text("The O\nkeeper B-PER\n\na O\nship B-PER\n\n" * 4)
  flags = {
    **TRAINING,
    **model,
    "do_predict": True,
    "train_file": table,
    "predict_file": table,
    "max_seq_length": 8,
    "train_batch_size": 4,
    "num_train_epochs": 1,
  }
  return fault_runs.Job("tagging", "run_ner.py", flags, eagerly=True)


def _squad(folder, model):
  context = "The keeper of the lamp is a tall keeper."
  answer = {"text": "the lamp", "answer_start": context.index("the lamp")}
  questions = [
    {"id": str(number), "question": "The light of the keeper?"}
    | {"answers": [answer]}
    for number in range(4)
  ]
  paragraphs = [{"context": context, "qas": questions}]
  path = folder / "squad.json"
  path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
  flags = {
    **TRAINING,
    **model,
    "do_predict": True,
    "train_file": path,
    "predict_file": path,
    "max_seq_length": 32,
    "doc_stride": 8,
    "max_query_length": 8,
    "train_batch_size": 2,
    "num_train_epochs": 1,
  }
  return fault_runs.Job("SQuAD", "run_squad.py", flags, eagerly=True)
