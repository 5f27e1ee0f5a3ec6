"""Loads a model's folder in Python: texts in, arrays and dicts out.

  from serving import text_models

  bert = text_models.load("mrpc_output/final_model")
  bert.classify([("A man walks.", "Someone walks.")])

The folder comes from this project, google-research/bert or Hugging Face, or is
an export for ONNX Runtime or LiteRT. The scripts and serve.py give the same
answers: `answers` computes them, with the settings from export_settings.
Letters: N texts, T tokens, L layers, A heads, H hidden size, D embedding size.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from answering import answers, export_options, zero_shot
from checkpoints import hub_cache, sentence_pooling
from common import errors, run_settings
from exports import exported_network
from features import text_batches, vector_search
from text import input_sequences

# One text, one pair, or several of one of them.
Texts = str | tuple[str, str] | Iterable[str] | Iterable[tuple[str, str]]

# {number of texts per example: the form of the examples}
_FORMS = {1: "strings", 2: "pairs of strings"}
# The number of lines that `search` embeds together.
_LINES_AT_ONCE = 1024


class Encoded(NamedTuple):
  """The encoder's outputs for one text.

  Attributes:
    tokens: list of T str, including [CLS] and [SEP].
    layers: float32 [L, T, H], the hidden states after each layer.
    pooled: float32 [H], the pooler's output; None if the weights lack a pooler.
    attention: float32 [L, A, T, T], how much each token attends to each token
      (last axis); None without `attention=True`.
    input_ids, input_mask, segment_ids: int32 [T], the network's input without
      padding, so the mask is 1 everywhere.
  """

  tokens: list[str]
  layers: np.ndarray
  pooled: np.ndarray | None
  attention: np.ndarray | None
  input_ids: np.ndarray
  input_mask: np.ndarray
  segment_ids: np.ndarray


def load(
  folder: str | os.PathLike | None,
  *,
  batch_size: int = 32,
  num_threads: int = 0,
  download: bool = False,
  **options: Any,
) -> "TextModel":
  """Loads a model.

  Args:
    folder: an export, or a folder with a configuration, a vocabulary and
      weights; or a model's name in the hub's cache, see hub_cache; None if the
      options name these three.
    batch_size: sequences in a batch; batches of short sequences have more.
    num_threads: number of threads; 0 means one per core.
    download: whether to download a model of this name that is not in the cache.
    **options: an option that is None or missing has the value stored in the
      folder, else the flag's default. bert_config_file, vocab_file,
      init_checkpoint: paths outside the folder. do_lower_case: whether to
      lower-case. never_split: words that stay whole. max_seq_length: longest
      sequence in word pieces. dtype: "float32" or "bfloat16". engine:
      "tensorflow", "onnx" or "litert". quantize, for onnx and litert: "none" or
      "int8". For an export, all but max_seq_length must equal its values.

  Raises:
    InputError: there is no model, it cannot be read, or an option is invalid.
  """
  options = {
    name: os.fspath(value) if isinstance(value, os.PathLike) else value
    for name, value in {"model_dir": folder, **options}.items()
  }
  if isinstance(options["model_dir"], str):
    options["model_dir"] = hub_cache.resolve(options["model_dir"], download)
  _checked("batch_size", batch_size, export_options.LOADING)
  _checked("num_threads", num_threads, export_options.LOADING)
  chosen = {n: value for n, value in options.items() if value is not None}
  defaults = run_settings.Settings(export_options.DEFAULTS)
  # Check the options before a network is loaded.
  settings = _settings(defaults, chosen)
  if export := exported_network.find(settings.model_dir, num_threads):
    settings = _settings(export.settings, chosen)
    export.check(settings)
    return TextModel(export, settings, batch_size)
  with errors.needs_tensorflow():
    from common import lean_tensorflow  # noqa: F401
    from serving import trained_model

  model = trained_model.TrainedModel(settings, num_threads)
  return TextModel(model, model.settings, batch_size)


class TextModel:
  """A model's folder; each head is loaded at its first use.

  Texts are a list of str or of pairs (str, str). For a single text or pair, a
  method returns a single answer. The methods' options are flags of
  export_saved_model.py; a missing option has the value passed to `load`, else
  the value stored in the folder, else the default. All methods raise InputError
  if the folder lacks the head, an option is invalid, or a text is invalid.

  Attributes:
    config: configuration.BertConfig.
    tokenizer: tokenization.FullTokenizer.
  """

  def __init__(
    self, source: Any, settings: run_settings.Settings, batch_size: int
  ):
    """Creates the model from the source of its heads; see `load`.

    Args:
      source: exported_network.ExportedNetwork or trained_model.TrainedModel.
    """
    self._source, self._settings = source, settings
    self.config, self.tokenizer = source.config, source.tokenizer
    self._batch_size = batch_size
    # {name: (options that the head was loaded with, head)}.
    self._heads: dict[str, tuple[dict, answers.Head]] = {}
    # A head and its scoring function, see `likelihood`.
    self._scorer: tuple = (None, None)

  @property
  def max_seq_length(self) -> int:
    """The longest sequence in tokens, unless a head has its own maximum."""
    return self._settings.max_seq_length

  @property
  def encoder(self) -> Any:
    """The modeling.BertModel that `encode` uses, with the folder's weights."""
    return self._encoder().model.bert

  def encode(
    self,
    texts: Texts,
    *,
    attention: bool = False,
    prompt: str | None = None,
    prompt_name: str | None = None,
  ) -> Any:
    """Returns an Encoded, with hidden states, for each text or pair.

    `prompt`, or the folder's prompt with the name `prompt_name`, is put before
    each text; its default prompt is only for vectors.
    """
    text = self._prompt(prompt, prompt_name) if prompt or prompt_name else ""
    rows, is_single = _rows(texts)
    head = self._encoder()
    max_length = head.model.settings.max_seq_length
    encode = text_batches.make_encoder(
      self.tokenizer, max_length, head.cut, text
    )
    # A pooler that the checkpoint lacks has random weights.
    has_pooler = not any(
      "/pooler/" in name or "/head/" in name for name in head.missing
    )

    def compute(batch: dict, numbers: Sequence[int]) -> Iterator[Encoded]:
      states = self._source.states(head, batch, attention)
      for row in range(len(numbers)):
        # Remove the padding.
        length = batch["input_mask"][row].sum()
        inputs = {name: values[row, :length] for name, values in batch.items()}
        yield Encoded(
          self.tokenizer.convert_ids_to_tokens(inputs["input_ids"].tolist()),
          states["layers"][row, :, :length],
          states["pooled"][row] if has_pooler else None,
          states["attention"][row, ..., :length, :length]
          if attention
          else None,
          **inputs,
        )

    sequences = [encode(*row) for row in rows]
    head.cut.log()
    results = input_sequences.in_batches(
      sequences, compute, self._batch_size, max_length
    )
    return results[0] if is_single else results

  def embed(self, texts: Texts, **options: Any) -> np.ndarray:
    """Returns one vector for each text, float32 [N, D].

    Options: pooling ("pooled", "mean", "max", "cls"; or "last_four_concat" with
    D = 4 H), pooling_layer (-2, "-1+-2" for a sum, or a list of n of these with
    D = n H), normalize, text_pairs, max_seq_length; prompt, a text to put
    before each text, or prompt_name, the name of one in the folder (default:
    the folder's default prompt).
    """
    answer = self._ask("embedding", texts, options)
    if isinstance(answer, dict):
      return np.array(answer["embedding"], np.float32)
    vectors = np.array([row["embedding"] for row in answer], np.float32)
    # Without texts, the shape must be [0, D], but NumPy gives [0].
    pooling = sentence_pooling.Pooling.of(
      self._heads["embedding"][1].settings, self.config.num_hidden_layers
    )
    return vectors.reshape([-1, pooling.width(self.config.hidden_size)])

  def embed_sparse(self, texts: Texts, **options: Any) -> Any:
    """Returns a dict for each text: {word piece: weight}, largest weight first.

    Pieces with weight 0 are left out. Pieces that are not in the text may have
    weights too. Options: sparse_pooling ("max" or "sum"), sparse_activation
    ("relu" or "log1p_relu"), max_seq_length, prompt, prompt_name.
    """
    rows, is_single = _rows(texts)
    results = [row["weights"] for row in self._ask("sparse", rows, options)]
    return results[0] if is_single else results

  def search(
    self,
    queries: Texts,
    lines: Sequence[str],
    *,
    top_k: int = 10,
    vectors: np.ndarray | None = None,
    query_prompt: str | None = None,
    **options: Any,
  ) -> Any:
    """Returns the lines nearest to each query: dicts of line, text, cosine.

    `line` counts from 0. The largest cosines between vectors of `embed` come
    first. If the queries equal the lines, a line never matches itself, so the
    results are near-duplicates. Options: see `embed`.

    Args:
      top_k: number of results per query.
      vectors: float [N, D], the result of `embed` for the N lines with the same
        options; if None, this method computes them.
      query_prompt: a text to put before each query, instead of `prompt`. If
        neither is given, queries get the folder's prompt "query", and lines its
        prompt "document", "passage" or "corpus", or else its default prompt.
    """
    (_, is_single), (_, is_text) = _rows(queries), _rows(lines)
    if is_text or not len(lines):
      raise errors.InputError("lines to search: expected a list of texts")
    _checked("top_k", top_k)
    lines = [*lines]
    chosen = options.pop("prompt", None), options.pop("prompt_name", None)
    options["prompt"] = self._prompt(*chosen, "document")
    if query_prompt is None:
      query_prompt = self._prompt(*chosen, "query")
    query_options = {**options, "prompt": query_prompt}
    listed: Any = [queries] if is_single else [*queries]
    if vectors is None:  # Embed the lines in parts, to limit memory.
      starts = range(0, len(lines), _LINES_AT_ONCE)
      parts = [lines[start : start + _LINES_AT_ONCE] for start in starts]
      vectors = np.concatenate([self.embed(part, **options) for part in parts])
    else:
      first = self.embed(lines[0], **options)
      vector_search.check(vectors, len(lines), first, "vectors=")
    query_vectors = (
      None if listed == lines else self.embed(listed, **query_options)
    )
    results = vector_search.search(vectors, lines, top_k, query_vectors)
    return results[0] if is_single else results

  def classify(self, texts: Texts, **options: Any) -> Any:
    """Returns a dict for each text: label, probability, labels, probabilities.

    Multi-label models return the last two, regressions and rerankers a score.
    Options: labels, output_activation, text_pairs, doc_stride, max_windows,
    max_seq_length.

    For a model of inference, whose own labels are entailment and contradiction,
    `labels` are your own classes. There are then two further options:
    hypothesis_template ("This example is {}.") and multi_label.
    """
    own = self._settings.labels or self.config.label_names()
    if options.get("labels") is None or not zero_shot.fits(own):
      return self._ask("classification", texts, options)
    names = options.keys() & {*zero_shot.Classes._fields}
    classes = zero_shot.Classes(**{n: options.pop(n) for n in names})
    rows, is_single = _rows(texts)
    _check_form(rows, ("text",))
    answers.check("classification", rows)
    head = self._head("classification", options)
    answer = zero_shot.make(
      head.settings, head.network, self._batch_size, classes
    )
    results = answer([text for (text,) in rows]) if rows else []
    return results[0] if is_single else results

  def answer(
    self,
    questions: Texts,
    contexts: Texts,
    *,
    top_k: int | None = None,
    **options: Any,
  ) -> Any:
    """Returns a dict for each question: answer, score, start, end, null_score.

    With top_k, the dict also has `candidates`: the best answers, at most top_k,
    as dicts of answer, probability, score, start and end.
    Options: version_2_with_negative, null_score_diff_threshold, doc_stride,
    max_query_length, max_answer_length, n_best_size, max_seq_length.
    """
    count = {} if top_k is None else {"top_k": _checked("top_k", top_k)}
    if isinstance(questions, str):
      pair: Any = (questions, contexts)  # `_rows` checks that it is a pair.
      return self._ask("span", pair, options, **count)
    questions = _listed(questions)
    contexts = [contexts] if isinstance(contexts, str) else _listed(contexts)
    if len(questions) != len(contexts):
      raise errors.InputError(
        f"the numbers of questions ({len(questions)}) and contexts "
        f"({len(contexts)}) differ: pass one context for each question"
      )
    pairs = list(zip(questions, contexts))
    return self._ask("span", pairs, options, **count)

  def tag(self, texts: Texts, **options: Any) -> Any:
    """Returns a dict for each text: words, tags, probabilities, starts, ends.

    Options: labels, tag_words ("punctuation" or "white_space"), max_seq_length.
    """
    answer = self._ask("tagging", texts, options)
    for row in [answer] if isinstance(answer, dict) else answer:
      del row["num_words"]
    return answer

  def fill_mask(self, texts: Texts, **options: Any) -> Any:
    """Returns a dict for each text: fillings and probabilities, per [MASK].

    Options: top_k, max_seq_length.
    """
    return self._ask("masked_lm", texts, options)

  def next_sentence(self, pairs: Texts, **options: Any) -> Any:
    """Returns a dict for each pair: probability that the second text follows.

    The dict also has log_probabilities: that it follows, and that it is random.
    Options: max_seq_length.
    """
    return self._ask("next_sentence", pairs, options)

  def likelihood(self, texts: Texts) -> Any:
    """Returns a dict for each text: log_likelihood, and perplexity per piece.

    The dict also has tokens, and the log_probabilities of each token given all
    others; see answers.make_scorer.
    """
    rows, is_single = _rows(texts)
    answers.check("masked_lm", rows)
    head = self._with_model("masked_lm", {})
    _check_form(rows, head.texts)
    if self._scorer[0] is not head:
      self._scorer = head, self._source.scorer(head, self._batch_size)
    scores = self._scorer[1](rows)
    return scores[0] if is_single else scores

  def servable(self, head: str | None = None) -> answers.Served:
    """Returns a head for serve.py, by default the trained head."""
    chosen = self._head(head or self._settings.head, {})
    return answers.Served(
      self._settings.model_dir,
      chosen.settings,
      chosen.texts,
      self.tokenizer,
      chosen.network,
      self._batch_size,
      prompts=self._source.prompts,
    )

  def _encoder(self) -> answers.Head:
    """Returns the embedding head, whatever its pooling."""
    # "mean" does not need the pooler, which published encoders may lack. It is
    # only a default, which the folder's pooling replaces.
    default = {"pooling": "mean"}
    try:
      return self._with_model("embedding", {}, default)
    except errors.InputError:
      # The folder's modules are not supported, but the user needs no vector.
      return self._with_model("embedding", default)

  def _with_model(
    self, name: str, options: dict, defaults: dict | None = None
  ) -> answers.Head:
    """Returns a head on TensorFlow; loads it with `options` if needed."""
    if self._settings.engine != "tensorflow":
      raise errors.InputError(
        "only TensorFlow computes hidden states, attention and likelihoods: "
        "load the model's own folder, not an export, without engine="
      )
    _, head = self._heads.get(name, ({}, None))
    if head and head.model:
      return head
    return self._head(name, options, defaults)

  def _head(
    self, name: str, options: dict, defaults: dict | None = None
  ) -> answers.Head:
    """Returns the head with these options; loads it if needed.

    `defaults` replace the defaults of the flags.
    """
    # Each head has one model at a time: a second would double the memory.
    key = {**options, "defaults": defaults}
    if name not in self._heads or self._heads[name][0] != key:
      known = self._settings.filled(defaults or {})
      settings = _settings(known, {**options, "head": name})
      head = self._source.head(settings, self._batch_size)
      self._heads[name] = key, head
    return self._heads[name][1]

  def _prompt(self, text: str | None, name: str | None, role: str = "") -> str:
    """Returns the text to put before each text; see Prompts.chosen.

    The options of `load` replace missing options of a call.
    """
    for option, value in (("prompt", text), ("prompt_name", name)):
      if value is not None:
        _checked(option, value)
    if text is None and name is None:
      given = self._settings.given
      text, name = (
        self._settings.get(option) if option in given else None
        for option in ("prompt", "prompt_name")
      )
    return self._source.prompts.chosen(text, name, role)

  def _ask(
    self, head_name: str, texts: Texts, options: dict, **answer_options: Any
  ) -> Any:
    """Returns a dict of outputs for each text, or one for a single text."""
    rows, is_single = _rows(texts)
    answers.check(head_name, rows, self.tokenizer.specials.mask)
    if head_name in ("embedding", "sparse"):
      # Another prompt does not need another network.
      options = {**options}
      prompt, name = (
        options.pop("prompt", None),
        options.pop("prompt_name", None),
      )
      if prompt is not None or name is not None:
        answer_options["prompt"] = self._prompt(prompt, name)
        # A network whose default prompt is refused is loaded without it.
        if self._source.prompts.not_pooled:
          options["prompt"] = answer_options["prompt"]
    head = self._head(head_name, options)
    _check_form(rows, head.texts)
    results = head.answer(rows, **answer_options) if rows else []
    head.cut.log()
    return results[0] if is_single else results


def _settings(
  settings: run_settings.Settings, chosen: dict
) -> run_settings.Settings:
  """Returns settings with the `chosen` values, after checking them.

  Args:
    settings: complete Settings; the result's `given` adds the `chosen` names.
    chosen: {name of a flag: value}.

  Raises:
    InputError: a name is unknown, or a value is invalid or has no effect.
  """
  for name, value in chosen.items():
    _checked(name, value)
  values = settings.pick(export_options.DEFAULTS)
  changed = run_settings.Settings(
    {**values, **chosen}, settings.given.union(chosen), export_options.checked
  )
  run_settings.refuse_ignored(changed, export_options.ENGINE_RULES)
  return changed


def _checked(
  name: str, value: Any, options: dict = export_options.BY_NAME
) -> Any:
  """Returns an option's value; raises InputError if the value is invalid."""
  try:
    return export_options.checked(name, value, options)
  except ValueError as error:
    raise errors.InputError(f"{name}={value!r:.40}: {error}") from error


def _check_form(rows: list[tuple], names: Sequence[str]) -> None:
  if rows and len(rows[0]) != len(names):
    raise errors.InputError(
      f"this model takes {_FORMS[len(names)]} ({', '.join(names)}), not "
      f"{_FORMS[len(rows[0])]}: pass {_FORMS[len(names)]}, or change "
      "text_pairs, if this method has it"
    )


def _rows(texts: Texts) -> tuple[list[tuple], bool]:
  """Returns (list of tuples of strings, whether it was a single example).

  Args:
    texts: list of str or of pairs; or a single str or pair.

  Raises:
    InputError: `texts` has another form, or a string has a lone surrogate.
  """
  is_single = isinstance(texts, (str, tuple))
  examples: list = [texts] if is_single else _listed(texts)
  rows = [(text,) if isinstance(text, str) else text for text in examples]
  for number, row in enumerate(rows):
    try:
      # `str.encode` also refuses lone surrogates, as TensorFlow would later.
      count = len([text.encode("utf-8") for text in row])
    except (AttributeError, TypeError, UnicodeEncodeError):
      count = 0
    if count not in (1, 2) or count != len(rows[0]):
      raise errors.InputError(
        f"text number {number} is {ascii(row):.60}; expected a string or a "
        "pair of strings, valid in UTF-8; do not mix strings and pairs"
      )
  return rows, is_single


def _listed(texts: Any) -> list:
  """Returns texts in a list; raises InputError if they are not iterable."""
  # A dict or a table would give its keys.
  if not isinstance(texts, Mapping) and not hasattr(texts, "columns"):
    with contextlib.suppress(TypeError):
      return [*texts]
  raise errors.InputError(
    f"texts of the type {type(texts).__name__}; expected a string, a pair of "
    "strings, or a list of these"
  )
