r"""Writes a SavedModel that takes raw text, for TensorFlow Serving and TF Hub.

  python export_saved_model.py --head=classification --labels=bad,good \
      --bert_config_file=bert_config.json --vocab_file=vocab.txt \
      --init_checkpoint=sst2_output --export_dir=models/sentiment

The tokenizer becomes part of the graph, and is compared with tokenization.py
before anything is written. Takes less than a minute on 2 CPU cores. serve.py
serves the result; so does TensorFlow Serving.
"""

from absl import flags

from common import choices, command
from training import common_flags

common_flags.define_model_flags()
common_flags.define_tokenizer_flags()
flags.DEFINE_enum(
  "head", None, choices.SERVING_HEADS, "What the model does.",
  required=True,
)
flags.DEFINE_string(
  "export_dir", None,
  "Folder of the model; the export becomes its subfolder --version.",
  required=True,
)
flags.DEFINE_integer(
  "version", 1, "Number of the export: TensorFlow Serving takes the highest.",
  lower_bound=0,
)
flags.DEFINE_list(
  "labels", [],
  "Names of the labels (classification, tagging), in order; by default those "
  "in --bert_config_file, where our scripts and Hugging Face write them.",
)
flags.DEFINE_string(
  "label_file", None, "The same, in a file with one label a line."
)
flags.DEFINE_enum(
  "output_activation", "softmax", ("softmax", "sigmoid", "linear"),
  "classification: one label, several labels, or one number (regression).",
)
flags.DEFINE_bool(
  "text_pairs", False, "classification, embedding: two texts, not one."
)
flags.DEFINE_enum(
  "pooling", "pooled", choices.EMBEDDING_POOLINGS,
  "embedding: the pooler's output, the mean over all tokens, or the last "
  "state of [CLS].",
)
flags.DEFINE_bool(
  "normalize", False, "embedding: whether to scale vectors to length 1."
)
flags.DEFINE_integer(
  "top_k", 5, "masked_lm: how many fillings of each [MASK].", lower_bound=1
)
flags.DEFINE_integer(
  "doc_stride", 128,
  "span: from one window of a long context to the next, in word pieces.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_query_length", 64, "span: longer questions are cut off.", lower_bound=1
)
flags.DEFINE_integer(
  "max_answer_length", 30, "span: longest answer, in word pieces.",
  lower_bound=1,
)
flags.DEFINE_bool(
  "version_2_with_negative", False, "span: whether there may be no answer."
)
flags.DEFINE_float(
  "null_score_diff_threshold", None,
  "span: there is no answer if its score is more than this above the best "
  "answer's. Not given: what run_squad.py stored with the model, or 0.0.",
)
flags.DEFINE_enum(
  "tag_words", "punctuation", ("punctuation", "white_space"),
  "tagging: where words end. punctuation is a word of its own, or part of "
  "what white space parts.",
)
flags.DEFINE_enum(
  "dtype", "float32", ("float32", "bfloat16"),
  "Type in which the encoder's matrices are stored and multiplied.",
)
flags.DEFINE_string(
  "warmup_file", None,
  "Texts that TensorFlow Serving runs at its start, one a line, two texts "
  "with a tab between; a sentence of our own if not given.",
)
flags.DEFINE_bool(
  "allow_tokenizer_differences", False,
  "Export although some text gives other ids than with tokenization.py.",
)

# --help and mistakes are answered before TensorFlow is loaded.
command.parse_flags(__name__)

import os

import modeling
from checkpoints import weight_files
from common import errors, file_io
from serving import graph_tokenizer, models, saved_model
from squad import null_threshold
from training import setup


def read_labels(settings, config):
  """Returns the labels of the flags, or else of the model, a list.

  Raises:
    InputError: there are none, or some that the head has no use for.
  """
  labels = list(settings.labels)
  if settings.label_file:
    labels += [line for _, line in file_io.read_lines(settings.label_file)]
  wanted = settings.head == "tagging" or (
    settings.head == "classification" and settings.output_activation != "linear"
  )
  if wanted and not labels:
    labels = config.label_names()
  if wanted and not labels:
    raise errors.InputError(
      f"--head={settings.head} needs names for its labels, in the order of "
      "training: pass --labels or --label_file, or a --bert_config_file with "
      "id2label"
    )
  if labels and not wanted:
    raise errors.InputError(
      f"this --head={settings.head} has no labels; leave --labels and "
      "--label_file out"
    )
  return labels


def read_options(settings):
  """Returns the models.Options of the flags."""
  return models.Options(
    max_seq_length=settings.max_seq_length,
    text_pairs=settings.text_pairs,
    activation=settings.output_activation,
    pooling=settings.pooling,
    normalize=settings.normalize,
    top_k=settings.top_k,
    doc_stride=settings.doc_stride,
    max_query_length=settings.max_query_length,
    max_answer_length=settings.max_answer_length,
    null_threshold=stored_threshold(settings),
    split_at_punctuation=settings.tag_words == "punctuation",
    bfloat16=settings.dtype == "bfloat16",
  )


def stored_threshold(settings):
  """Returns the threshold of "no answer"; None if each question has one."""
  if settings.head != "span" or not settings.version_2_with_negative:
    return None
  if settings.null_score_diff_threshold is not None:
    return settings.null_score_diff_threshold
  return null_threshold.of_checkpoint(settings.init_checkpoint)


def read_warmup_texts(settings, model):
  """Returns the requests of --warmup_file, a list of tuples of strings."""
  count = len(model.text_inputs)
  if not settings.warmup_file:
    return [(f"The keeper lit the {models.MASK}.",) * count]
  texts = []
  for number, line in file_io.read_lines(settings.warmup_file):
    fields = tuple(line.split("\t"))
    if len(fields) != count:
      raise errors.InputError(
        f"{settings.warmup_file}:{number}: {len(fields)} texts with tabs "
        f"between them; this model takes {count} "
        f"({', '.join(model.text_inputs)})"
      )
    texts.append(fields)
  return texts


def main(_):
  settings = setup.resolve(common_flags.read_settings())
  if not settings.init_checkpoint:
    raise errors.InputError("pass --init_checkpoint: the weights to export")
  config = modeling.BertConfig.from_json_file(settings.bert_config_file)
  labels, options = read_labels(settings, config), read_options(settings)
  tokenizer = setup.make_tokenizer(settings, config)
  kind = models.KINDS[settings.head]
  model = kind(config, tokenizer, options, labels)
  warmup_texts = read_warmup_texts(settings, model)
  weight_files.load(
    model.variables,
    settings.init_checkpoint,
    allowed_missing=model.variables_may_be_missing,
  )
  graph_tokenizer.check_same(
    model.tokenizer, tokenizer, may_differ=settings.allow_tokenizer_differences
  )
  folder = os.path.join(settings.export_dir, str(settings.version))
  saved_model.write(
    folder,
    model,
    warmup_texts=warmup_texts,
    name=os.path.basename(os.path.abspath(settings.export_dir)),
  )
  print(f"The model is in {folder}.")


if __name__ == "__main__":
  command.run(main)
