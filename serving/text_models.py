"""A model in Python: texts in, arrays and dicts out, whatever its folder has.

  from serving import text_models

  bert = text_models.load("mrpc_output/final_model")
  bert.classify([("A man walks.", "Someone walks.")])

The folder is one of this project, of the original or of Hugging Face. The
answers are those of the scripts and of serve.py, see `answers`, with the
settings that export_settings finds. Letters: N texts, T tokens of a text, L
layers, H width, A heads.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

import modeling
from checkpoints import model_settings, weight_files
from common import errors, run_settings
from features import text_batches
from serving import answers, export_options, export_settings

# What a user writes for a model of one text or two an example.
_FORMS = {1: "strings", 2: "pairs of strings"}


class Encoded(NamedTuple):
  """What the encoder makes of one text.

  Attributes:
    tokens: list of T str, [CLS] and [SEP] included.
    layers: float32 [L, T, H], the states after each layer, the last one last.
    pooled: float32 [H], the pooler's output; None if the weights have none.
    attention: float32 [L, A, T, T], how much of each token (last axis) goes
      into the new state of each; None unless it was asked for.
  """

  tokens: list[str]
  layers: np.ndarray
  pooled: np.ndarray | None
  attention: np.ndarray | None


def load(
  folder: str | None,
  *,
  bert_config_file: str | None = None,
  vocab_file: str | None = None,
  init_checkpoint: str | None = None,
  do_lower_case: bool | None = None,
  max_seq_length: int | None = None,
  dtype: str | None = None,
  batch_size: int = 32,
) -> "TextModel":
  """Loads a model.

  Args:
    folder: with bert_config.json or config.json, vocab.txt and weights; None:
      all three files are named.
    bert_config_file, vocab_file, init_checkpoint: where one is elsewhere.
    do_lower_case: whether text is lower-cased; None: as the folder says, True
      if it does not.
    max_seq_length: longest sequence in word pieces; None: as in training, or
      the default of the head's script, at most the model's positions.
    dtype: "float32" or "bfloat16"; None: the first.
    batch_size: texts that are computed together.

  Raises:
    InputError: there is no model, or it cannot be read.
  """
  given = {
    "model_dir": folder, "bert_config_file": bert_config_file,
    "vocab_file": vocab_file, "init_checkpoint": init_checkpoint,
    "do_lower_case": do_lower_case, "max_seq_length": max_seq_length,
    "dtype": dtype,
  }
  given = {n: value for n, value in given.items() if value is not None}
  defaults = {**export_options.DEFAULTS, "model_dir": None}
  settings = _settings(run_settings.Settings(defaults), given)
  return TextModel(settings, batch_size)


class TextModel:
  """A model's folder; each head is loaded when it is first asked for.

  Texts are a list of str, or of pairs (str, str) where two belong together; a
  single text or pair is answered by a single answer. Keyword arguments of the
  methods are flags of export_saved_model.py; what is not given is as in
  training, or the flag's default. All methods raise InputError: the folder has
  no such head, an option is unknown or would have no effect, a text is none.

  Attributes:
    config: modeling.BertConfig.
    tokenizer: tokenization.FullTokenizer.
  """

  def __init__(self, settings, batch_size):
    """Takes run_settings.Settings and how many texts go together."""
    settings = model_settings.resolve(settings)
    # For its error: a folder without weights is refused here, not at first use.
    if not settings.init_checkpoint:
      raise errors.InputError(
        "pass --init_checkpoint or --model_dir: the weights to use"
      )
    weight_files.open_reader(settings.init_checkpoint)
    path = settings.bert_config_file
    self.config = modeling.BertConfig.from_json_file(path)
    if "max_seq_length" in settings.given:
      self.config.check_sequence_length(settings.max_seq_length)
    settings = model_settings.restore_input_settings(
      settings, export_settings.trained_settings("masked_lm", self.config), path
    )
    self.tokenizer = model_settings.make_tokenizer(settings, self.config)
    self._settings, self._batch_size = settings, batch_size
    self._heads = {}  # Name of a head -> (its options, _Head).

  @property
  def max_seq_length(self) -> int:
    """Of masked language modeling."""
    most = self.config.max_position_embeddings
    return min(self._settings.max_seq_length, most)

  @property
  def encoder(self):
    """The modeling.BertModel that `encode` uses, with the folder's weights."""
    return self._encoder().model.bert

  def encode(self, texts, *, attention: bool = False):
    """Returns hidden states, the Encoded of each text or pair."""
    rows, is_single = _rows(texts)
    head = self._encoder()
    encode = text_batches.make_encoder(
      self.tokenizer, head.model.settings.max_seq_length
    )
    # One that the checkpoint lacks has random weights.
    has_pooler = not any("/pooler/" in name for name in head.missing)

    def compute(batch, places):
      states = _states(head.model, batch, attention)
      for row in range(len(places)):
        # Of a batch, each text gets back its own tokens alone.
        length = batch["input_mask"][row].sum()
        ids = batch["input_ids"][row, :length].tolist()
        yield Encoded(
          self.tokenizer.convert_ids_to_tokens(ids),
          states["layers"][row, :, :length],
          states["pooled"][row] if has_pooler else None,
          states["attention"][row, ..., :length, :length]
          if attention else None,
        )

    sequences = [encode(*row) for row in rows]
    found = answers.in_batches(sequences, compute, self._batch_size)
    return found[0] if is_single else found

  def embed(self, texts, **options) -> np.ndarray:
    """Returns one vector for each text, float32 [N, H].

    Options: pooling ("pooled", "mean" or "cls"), normalize, text_pairs,
    max_seq_length.
    """
    rows, is_single = self._ask("embedding", (texts,), options)
    vectors = [row["embedding"] for row in rows]
    if is_single:
      return vectors[0]
    # Of no texts [0, H], where numpy alone would give [0].
    return np.array(vectors, np.float32).reshape([-1, self.config.hidden_size])

  def classify(self, texts, **options):
    """Returns a dict for each text: label, probability, all probabilities.

    Of several labels at once: labels and probabilities; of a regression: score.
    Options: labels, label_file, output_activation, text_pairs, doc_stride,
    max_windows, max_seq_length.
    """
    return _one_or_all(*self._ask("classification", (texts,), options))

  def answer(self, questions, contexts, **options):
    """Returns a dict for each question: answer, score, start, end, null_score.

    Options: version_2_with_negative, null_score_diff_threshold, doc_stride,
    max_query_length, max_answer_length, n_best_size, max_seq_length.
    """
    return _one_or_all(*self._ask("span", (questions, contexts), options))

  def tag(self, texts, **options):
    """Returns a dict for each text: words, tags, probabilities, starts, ends.

    Options: labels, label_file, tag_words ("punctuation" or "white_space"),
    max_seq_length.
    """
    rows, is_single = self._ask("tagging", (texts,), options)
    for row in rows:
      del row["num_words"]
    return _one_or_all(rows, is_single)

  def fill_mask(self, texts, **options):
    """Returns a dict for each text: fillings, probabilities, of each [MASK].

    Options: top_k, max_seq_length.
    """
    return _one_or_all(*self._ask("masked_lm", (texts,), options))

  def _encoder(self):
    """Returns the _Head of embeddings, whatever its options are."""
    if "embedding" not in self._heads:
      # Published encoders without a pooler will do.
      self._head("embedding", {"pooling": "mean"})
    return self._heads["embedding"][1]

  def _head(self, name, options):
    """Returns the _Head with options; that with other ones is forgotten."""
    known, head = self._heads.get(name, (None, None))
    # One model of a head at a time: a second one would double the memory.
    if known != options:
      given = {
        # What this call says replaces what `load` was given.
        **{key: self._settings.get(key) for key in self._settings.given},
        **options, "head": name,
      }
      settings = export_settings.resolve(
        _settings(self._settings, given), self.config
      )
      head = _Head(settings, self.config, self.tokenizer, self._batch_size)
      self._heads[name] = options, head
    return head

  def _ask(self, head_name, texts, options):
    """Returns (a dict of outputs for each text, whether there was just one)."""
    rows, is_single = _rows(*texts)
    answers.check(head_name, rows)
    head = self._head(head_name, options)
    names = head.model.text_inputs
    if rows and len(rows[0]) != len(names):
      raise errors.InputError(
        f"this model takes {len(names)} texts an example ({', '.join(names)}) "
        f"and got {len(rows[0])}: pass {_FORMS[len(names)]}, or text_pairs="
      )
    return head.answer(rows) if rows else [], is_single


class _Head:
  """A models.ServedModel with its weights, and how it answers.

  Attributes:
    model: the models.ServedModel.
    missing: names of variables that the checkpoint does not have.
    answer: see answers.make.
  """

  def __init__(self, settings, config, tokenizer, batch_size):
    self.model = export_settings.make_model(settings, config, tokenizer)
    self.missing = weight_files.load(
      self.model.variables,
      settings.init_checkpoint,
      allowed_missing=self.model.variables_may_be_missing,
    ).missing
    self.answer = answers.make(answers.Parts(
      settings=settings,
      tokenizer=tokenizer,
      labels=self.model.labels,
      network=answers.compiled(self.model.from_ids, self.model.id_inputs),
      batch_size=batch_size,
    ))


def _states(model, batch, attention):
  """Returns what Encoded is made of, a dict of arrays, for ids [B, T]."""
  output = model.encode(
    {name: tf.constant(values) for name, values in batch.items()},
    return_attention=attention,
  )
  states = {
    "layers": tf.stack(output.all_encoder_layers, 1),
    "pooled": output.pooled_output,
    **({"attention": tf.stack(output.attention_probs, 1)} if attention else {}),
  }
  return {n: tf.cast(value, tf.float32).numpy() for n, value in states.items()}


def _settings(settings, given):
  """Returns run_settings.Settings with other values, once they are checked.

  Args:
    settings: run_settings.Settings that has all names.
    given: dict from names of flags to values.

  Raises:
    InputError: a name or a value that no flag has.
  """
  known = export_options.DEFAULTS
  for name, value in given.items():
    if name not in settings:
      raise errors.InputError(
        f"no option is called {name}; there are {', '.join(sorted(known))}"
      )
    try:
      _checked(name, value)
    except ValueError as error:
      raise errors.InputError(f"{name}={value!r:.40}: {error}") from error
  values = {name: settings.get(name) for name in (*known, "model_dir")}
  return run_settings.Settings({**values, **given}, given, _checked)


def _checked(name, value):
  """Returns the value of an option; raises ValueError if it can be none."""
  if name in export_options.BY_NAME:
    export_options.BY_NAME[name].check(value)
  return value


def _rows(texts, others=None):
  """Returns (list of tuples of strings, whether it was a single example).

  Args:
    texts: list of str or of pairs; or one of them.
    others: list of as many str, the second of each pair; or one.

  Raises:
    InputError: it is something else.
  """
  is_single = isinstance(texts, (str, tuple))
  if is_single:
    texts, others = [texts], None if others is None else [others]
  if others is None:
    rows = [(text,) if isinstance(text, str) else text for text in texts]
  else:
    texts, others = list(texts), list(others)
    if len(texts) != len(others):
      raise errors.InputError(
        f"{len(texts)} questions and {len(others)} contexts: pass as many of "
        "one as of the other"
      )
    rows = list(zip(texts, others))
  for number, row in enumerate(rows):
    _check_row(number, row, len(rows[0]))
  return rows, is_single


def _check_row(number, row, count):
  """Raises InputError if a row has not `count` texts."""
  try:
    # Also finds half a surrogate pair, which TensorFlow would refuse later.
    sizes = [len(text.encode("utf-8")) for text in row]
  except (AttributeError, TypeError, UnicodeEncodeError) as error:
    raise errors.InputError(
      f"text number {number} is {ascii(row):.60}; expected a string, or a pair "
      "of strings, that UTF-8 can hold"
    ) from error
  if len(sizes) != count or not 1 <= count <= 2:
    raise errors.InputError(
      f"text number {number} has {len(sizes)} parts: pass strings, or pairs of "
      "strings, not some of each"
    )


def _one_or_all(rows, is_single):
  return rows[0] if is_single else rows
