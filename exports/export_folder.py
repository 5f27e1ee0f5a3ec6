"""Writes a folder with a network that other programs can load.

  model.onnx, model.onnx_data                  the network; model.onnx_data has
                                               its weights if they exceed 2 GB
  or model.tflite                              the network for LiteRT
  config.json, tokenizer_config.json,          as transformers writes them
  vocab.txt, tokenizer.json, ...
  modules.json, sentence_bert_config.json,     the pooling of embeddings, for
  1_Pooling/config.json, 2_Normalize/          sentence-transformers

Hugging Face's optimum and text-embeddings-inference, Qdrant's fastembed and
onnx_engine.py load a folder with model.onnx; litert_engine.py loads the other.
"""

import os
from collections.abc import Callable

import configuration
from checkpoints import huggingface, sentence_folder
from common import file_io, flag_values, run_settings
from engines import network_file
from variants import registry

_CLASSES = {
  "classification": "ForSequenceClassification",
  "embedding": "Model",
  "masked_lm": "ForMaskedLM",
  "next_sentence": "ForNextSentencePrediction",
  "span": "ForQuestionAnswering",
  "sparse": "ForMaskedLM",
  "tagging": "ForTokenClassification",
}
# In transformers, only AlbertForPreTraining has ALBERT's sentence-order head.
_CLASS_EXCEPTIONS = {("albert", "next_sentence"): "ForPreTraining"}


def write(
  write_model: Callable[[str], None],
  config: configuration.BertConfig,
  settings: run_settings.Settings,
  *,
  pooling: tuple | None = None,
) -> None:
  """Writes the folder --export_dir; an error leaves no incomplete folder.

  Args:
    write_model: function that writes the network's file to a path.
    settings: settings of export_saved_model.py, with the model's `labels`;
      `export_dir` is a new or empty folder.
    pooling: the sentence_pooling.Pooling for the head "embedding".

  Raises:
    InputError: `write_model` raises it, transformers does not support the
      model, or the folder is invalid (see file_io.new_folder).
  """
  configuration.check_huggingface(config)
  with file_io.new_folder(settings.export_dir) as temporary:
    write_model(os.path.join(temporary, network_file.FILES[settings.format]))
    huggingface.write_settings(
      temporary,
      _config_values(config, settings),
      _class_name(registry.name_of(config), settings.head),
      do_lower_case=settings.do_lower_case,
      vocab_file=settings.vocab_file,
      never_split=settings.get("never_split"),
      max_length=settings.max_seq_length,
    )
    # sentence-transformers pools only the last layer that the export contains.
    if (
      pooling
      and pooling[0] in sentence_folder.KINDS
      and (sum(map(len, pooling[1])) == 1)
    ):
      sentence_folder.write_modules(
        temporary, config.hidden_size, settings.max_seq_length, pooling
      )


def _class_name(variant: str, head: str) -> str:
  name = _CLASS_EXCEPTIONS.get((variant, head), _CLASSES[head])
  return flag_values.HUGGINGFACE_TITLES[variant] + name


def _config_values(
  config: configuration.BertConfig, settings: run_settings.Settings
) -> dict:
  """Returns the configuration with the labels and the task's problem_type."""
  values, labels = config.to_dict(), list(settings.labels)
  if settings.head == "classification":
    task_kind = configuration.KIND_OF_ACTIVATION[settings.output_activation]
    values["problem_type"] = configuration.PROBLEM_OF_KIND[task_kind]
  if settings.head in ("classification", "tagging"):
    values["id2label"] = {str(n): label for n, label in enumerate(labels)}
  return values
