"""A folder with an ONNX model that other programs take as it is.

  model.onnx, model.onnx_data                  the network; the second where
                                               it has more than 2 GB
  config.json, tokenizer_config.json,          as transformers writes them
  vocab.txt, tokenizer.json, ...
  modules.json, sentence_bert_config.json,     of vectors: what
  1_Pooling/config.json, 2_Normalize/          sentence-transformers does next

Hugging Face's optimum, text-embeddings-inference and fastembed, and
onnx_engine.py read it.
"""

import os
from collections.abc import Callable, Mapping

import numpy as np

import configuration
from checkpoints import huggingface, weight_names
from common import file_io, json_files, run_settings
from engines import onnx_graph
from variants import registry

MODEL_FILE = "model.onnx"
_CLASSES = {
  "classification": "ForSequenceClassification", "embedding": "Model",
  "masked_lm": "ForMaskedLM", "span": "ForQuestionAnswering",
  "tagging": "ForTokenClassification",
}
# Those that sentence-transformers has, by its names.
_POOLINGS = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}


def write(
  folder: str, weights: Mapping[str, np.ndarray],
  config: configuration.BertConfig, settings: run_settings.Settings,
  change: Callable[[str], None] | None = None, *,
  pooling: onnx_graph.Pooling | None = None,
) -> None:
  """Writes the folder, whole or not at all.

  Args:
    folder: must not exist, or be empty.
    weights: by TF1 name.
    settings: of export_saved_model.py, `labels` those of the model.
    change: called with the model's file before the folder is finished.
    pooling: of the head "embedding".

  Raises:
    InputError: see onnx_graph.make, file_io.new_folder and `change`.
  """
  pooling = pooling or onnx_graph.MEAN
  model = onnx_graph.make(settings.head, weights, config, pooling=pooling)
  with file_io.new_folder(folder) as temporary:
    path = os.path.join(temporary, MODEL_FILE)
    onnx_graph.write(path, model)
    if change:
      change(path)
    huggingface.write_settings(
      temporary, _config_values(config, settings),
      weight_names.TITLES[registry.name_of(config)] + _CLASSES[settings.head],
      do_lower_case=settings.do_lower_case, vocab_file=settings.vocab_file,
      never_split=settings.get("never_split"),
      max_length=settings.max_seq_length,
    )
    kind, pooled_layers, _ = pooling
    # Of one layer, which is then the last.
    is_last = sum(map(len, pooled_layers)) == 1
    if settings.head == "embedding" and kind in _POOLINGS and is_last:
      _write_modules(
        temporary, config.hidden_size, settings.max_seq_length, pooling
      )


def _config_values(config, settings):
  """Returns the configuration with the labels and the kind of the task."""
  values, labels = config.to_dict(), list(settings.labels)
  if settings.head == "classification":
    values["problem_type"] = configuration.PROBLEM_TYPES[
      settings.output_activation
    ]
    # transformers takes two labels where there is no name.
    labels = labels or ["LABEL_0"]
  if settings.head in ("classification", "tagging"):
    values["id2label"] = {str(n): label for n, label in enumerate(labels)}
  return values


def _write_modules(folder, width, max_length, pooling):
  """Writes what sentence-transformers does with the last states."""
  kind, _, normalize = pooling
  names = ["Transformer", "Pooling"] + ["Normalize"] * normalize
  paths = [""] + [f"{n}_{name}" for n, name in enumerate(names)][1:]
  for path in paths[1:]:
    os.mkdir(os.path.join(folder, path))
  files = {
    "modules.json": [
      {"idx": n, "name": str(n), "path": path,
       "type": f"sentence_transformers.models.{name}"}
      for n, (name, path) in enumerate(zip(names, paths))
    ],
    "sentence_bert_config.json": {
      # The tokenizer has the case.
      "max_seq_length": max_length, "do_lower_case": False,
    },
    os.path.join("1_Pooling", "config.json"): {
      "word_embedding_dimension": width,
      **{f"pooling_mode_{theirs}": ours == kind
         for ours, theirs in _POOLINGS.items()},
    },
  }
  for name, values in files.items():
    json_files.write(os.path.join(folder, name), values)
