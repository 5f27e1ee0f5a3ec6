"""Turns texts into answers, for every head, in Python and in serve.py.

  texts -> ids        functions of the task's folder, shared with its script
  ids -> outputs      a Network, which any engine computes
  outputs -> answers  functions of the task's folder

Letters: B sequences, T tokens, L labels, P masks, K fillings.
"""

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import configuration
import tokenization
from answering import export_options
from checkpoints import sentence_pooling, sentence_prompts
from classification import answers as classification_answers
from classification import sequences
from common import errors, json_files, run_settings, short_floats
from features import text_batches
from pretraining import answers as pretraining_answers
from squad import alignment
from squad import answers as squad_answers
from squad import windowing as squad_windowing
from tagging import answers as tagging_answers
from text import cut_texts, input_sequences
from variants import vocabularies, vocabulary_files

# A function of int32 arrays, named as in models.ServedModel.id_inputs, that
# returns the outputs of models.ServedModel.from_ids as {name: array}.
Network = Callable[..., dict[str, np.ndarray]]

# A server logs the texts that it cuts at most this often.
_SECONDS_BETWEEN_LINES = 60.0
_NO_PROMPTS = sentence_prompts.Prompts()
# The score of a missing answer is finite because JSON has no infinity.
_NO_ANSWER = -1e9
# The settings for `make` that an export stores in network_file.SETTINGS.
STORED = (
  "head do_lower_case max_seq_length output_activation doc_stride max_windows "
  "max_query_length max_answer_length n_best_size version_2_with_negative "
  "null_score_diff_threshold tag_words never_split pooling pooling_layer "
  "normalize prompt top_k quantize text_pairs sparse_pooling sparse_activation"
)


class Head(NamedTuple):
  """A head with its settings and its function from texts to answers.

  Attributes:
    texts: names of an example's texts.
    answer: the function that `make` returns for the network.
    network: the head's network.
    cut: counts the texts that `answer` cuts.
    model: the models.ServedModel if TensorFlow runs it, else None.
    missing: names of variables that the checkpoint lacks.
  """

  settings: run_settings.Settings
  texts: Sequence[str]
  answer: Callable[[list], list]
  network: Network
  cut: cut_texts.CutTexts
  model: Any = None
  missing: Sequence[str] = ()


class Served(NamedTuple):
  """A model for serve.py.

  Attributes:
    folder: the model's path.
    settings: settings for `make`.
    texts: names of an example's texts.
    tokenizer, network, batch_size: further arguments for `make`.
    version: for a SavedModel, its folder's name if that is a number; else 1.
    prompts: the model's prompts for vectors.
  """

  folder: str
  settings: run_settings.Settings
  texts: Sequence[str]
  tokenizer: tokenization.FullTokenizer
  network: Network
  batch_size: int
  version: int = 1
  prompts: sentence_prompts.Prompts = _NO_PROMPTS

  def answerer(self, network: Network | None = None) -> Callable[..., list]:
    """Returns the function of `make`, on another network if one is given.

    It also logs how many texts it cuts, at most once a minute.
    """
    cut = counter_of(self.settings)
    answer = make(
      self.settings,
      self.tokenizer,
      network or self.network,
      self.batch_size,
      cut=cut,
    )

    def answer_and_log(rows: list, **options: Any) -> list:
      results = answer(rows, **options)
      cut.log(seconds=_SECONDS_BETWEEN_LINES)
      return results

    return answer_and_log


def counter_of(settings: run_settings.Settings) -> cut_texts.CutTexts:
  """Returns a counter of the inputs of a head that are cut to its length.

  Windows have all of a context, and all words to tag.
  """
  if settings.head == "span":
    return cut_texts.CutTexts(settings.max_query_length, "questions")
  if settings.head == "tagging":
    return cut_texts.CutTexts(settings.max_seq_length - 2, "words")
  return cut_texts.CutTexts(settings.max_seq_length)


class _Parts(NamedTuple):
  """The arguments of `make`."""

  settings: run_settings.Settings
  tokenizer: tokenization.FullTokenizer
  network: Network
  batch_size: int
  cut: cut_texts.CutTexts


def make(
  settings: run_settings.Settings,
  tokenizer: tokenization.FullTokenizer,
  network: Network,
  batch_size: int,
  *,
  cut: cut_texts.CutTexts | None = None,
) -> Callable[..., list]:
  """Returns a function from a list of examples to a list of answers.

  An example is a tuple of one or two str; its answer is a dict of JSON values.
  Some heads' functions take further options by name: `top_k` (span) or `prompt`
  (vectors), which replace the settings' values.

  Args:
    settings: settings that export_settings.resolve returned.
    batch_size: sequences per batch; batches of short sequences have more.
    cut: counts the texts that are cut; see `counter_of`.
  """
  cut = cut or counter_of(settings)
  parts = _Parts(settings, tokenizer, network, batch_size, cut)
  return _HEADS[settings.head](parts)


def write_settings(
  path: str,
  settings: run_settings.Settings,
  texts: Iterable[str],
  prompts: sentence_prompts.Prompts = _NO_PROMPTS,
) -> None:
  """Writes the file that `read_settings` reads, and the prompts next to it.

  Args:
    settings: settings for `make`, with the model's `labels`.
    texts: names of an example's texts.
    prompts: the model's prompts.
  """
  if settings.head in ("embedding", "sparse"):
    default = settings.get("prompt") or ""
    sentence_prompts.write(os.path.dirname(path), prompts, default)
  files = vocabulary_files.VocabularyFiles(settings.vocab_file)
  values = {
    "settings": settings.pick(STORED),
    "labels": settings.labels,
    "text_inputs": texts,
    "text_rules": files.text_rules,
  }
  json_files.write(path, values)


def read_settings(
  path: str, vocab_file: str
) -> tuple[run_settings.Settings, list[str]]:
  """Returns settings for `make`, and the names of an example's texts.

  Raises InputError: the file is missing or damaged.
  """
  values = json_files.read(path)
  stored = {
    # An export from before an option existed gets the option's default.
    **export_options.DEFAULTS,
    **json_files.field(values, "settings", dict, path),
    "labels": json_files.field(values, "labels", list[str], path),
    "vocab_file": vocab_file,
    # Exports of earlier versions lack text_rules.
    "text_rules": json_files.field(values, "text_rules", dict, path, {}),
  }
  texts = json_files.field(values, "text_inputs", list[str], path)
  return run_settings.Settings(stored), texts


def check(head: str, rows: list, mask: str = "") -> None:
  """Raises InputError for a text without words or `mask`.

  A text without words is refused unless the head embeds texts. `mask` is the
  tokenizer's, if the head fills it.
  """
  if head in ("embedding", "sparse"):
    return
  for number, row in enumerate(rows):
    for text in row:
      errors.require_text(text, f"text number {number}")
      if head == "masked_lm":
        pretraining_answers.require_mask(text, mask, f"text number {number}")


def classifier(
  settings: run_settings.Settings, network: Network
) -> tuple[Callable, sequences.InputOptions]:
  """Returns a function that maps a batch to logits, and the input options.

  Functions of classification.answers take both. For `settings` see `make`.
  """
  problem = configuration.KIND_OF_ACTIVATION[settings.output_activation]
  options = sequences.options_of(settings, problem, settings.labels)
  return lambda batch: network(**batch)["logits"], options


def _classification(parts: _Parts) -> Callable[[list], list]:
  settings, _, network, batch_size, cut = parts
  logits, options = classifier(settings, network)
  return lambda rows: classification_answers.predict_texts(
    logits, options, rows, batch_size, cut=cut
  )


def _by_sequence(parts: _Parts, compute: Callable) -> Callable[..., list]:
  """Returns a function of examples, each of which becomes one sequence."""
  settings, tokenizer, _, batch_size, cut = parts
  length = settings.max_seq_length

  def answer(rows: list, prompt: str | None = None) -> list:
    text = (settings.get("prompt") or "") if prompt is None else prompt
    encode = text_batches.make_encoder(tokenizer, length, cut, text)
    return input_sequences.in_batches(
      [encode(*row) for row in rows], compute, batch_size, length
    )

  return answer


def _embedding(parts: _Parts) -> Callable[..., list]:
  settings, tokenizer, network, *_ = parts
  is_sparse = settings.head == "sparse"
  words = vocabularies.lines(tokenizer) if is_sparse else []

  def compute(batch: dict, _: Any) -> Iterator[dict]:
    vectors = network(**batch)["embedding"]
    if not is_sparse:
      for vector in short_floats.of(vectors).tolist():
        yield {"embedding": vector}
      return
    for vector in vectors:
      weights = sentence_pooling.by_word(vector, words)
      values = short_floats.of([*weights.values()]).tolist()
      yield {"weights": dict(zip(weights, values))}

  return _by_sequence(parts, compute)


def _masked_lm(parts: _Parts) -> Callable[[list], list]:
  settings, tokenizer, network, batch_size, cut = parts
  length, lines = settings.max_seq_length, vocabularies.lines(tokenizer)

  def token(value: Any) -> str:
    # A SavedModel returns word pieces, all other networks return ids.
    return value.decode() if isinstance(value, bytes) else lines[value]

  def answer(rows: list) -> list:
    encoded = [
      pretraining_answers.encode_within(tokenizer, text, length, cut)
      for (text,) in rows
    ]

    def compute(batch: dict, numbers: Sequence[int]) -> Iterator[dict]:
      positions = [encoded[n][1] for n in numbers]
      width = max(1, *map(len, positions))
      padded = [row + [0] * (width - len(row)) for row in positions]
      outputs = network(**batch, masked_lm_positions=padded)  # [B, P, K]
      for number, row in enumerate(positions):
        fillings = outputs["fillings"][number, : len(row)]
        probabilities = outputs["probabilities"][number, : len(row)]
        yield {
          "fillings": [[token(value) for value in mask] for mask in fillings],
          "probabilities": probabilities.tolist(),
        }

    return input_sequences.in_batches(
      [(ids, [0] * len(ids)) for ids, _ in encoded], compute, batch_size, length
    )

  return answer


def make_scorer(
  settings: run_settings.Settings,
  tokenizer: tokenization.FullTokenizer,
  network: Network,
  batch_size: int,
) -> Callable[[list], list]:
  """Returns a function that maps one-text examples to their likelihoods.

  It masks and predicts each piece in turn (Salazar et al., arXiv 1910.14659).
  The sum of the pieces' log probabilities is the text's pseudo-log-likelihood,
  and exp(-mean) is its pseudo-perplexity.

  Args:
    network: the Network that computes models.MaskFiller.log_probabilities.
  """
  length = settings.max_seq_length
  encode = text_batches.make_encoder(tokenizer, length)

  def describe(rows: list) -> Iterator[dict]:
    texts, copies, masked, mask_id = [], [], [], tokenizer.mask_id
    for number, (text,) in enumerate(rows):
      pretraining_answers.check_sentence(
        text, tokenizer, length, f"text number {number}"
      )
      ids, segments = encode(text)
      texts.append(ids[1:-1])
      for n in range(1, len(ids) - 1):
        copies.append(([*ids[:n], mask_id, *ids[n + 1 :]], segments))
        masked.append([[n], [ids[n]]])

    def compute(batch: dict, numbers: Sequence[int]) -> list[float]:
      positions, ids = np.swapaxes([masked[n] for n in numbers], 0, 1)  # [B, 1]
      outputs = network(
        **batch, masked_lm_positions=positions, masked_lm_ids=ids
      )
      return outputs["log_probabilities"][:, 0].tolist()

    scores = iter(
      input_sequences.in_batches(copies, compute, batch_size, length)
    )
    for ids in texts:
      values = list(itertools.islice(scores, len(ids)))
      total = math.fsum(values)
      yield {
        "log_likelihood": total,
        "perplexity": math.exp(-total / len(values)),
        "tokens": tokenizer.convert_ids_to_tokens(ids),
        "log_probabilities": values,
      }

  return lambda rows: list(describe(rows))


def _next_sentence(parts: _Parts) -> Callable[[list], list]:
  network = parts.network

  def compute(batch: dict, _: Any) -> Iterator[dict]:
    for row in network(**batch)["log_probabilities"].tolist():
      yield {"probability": math.exp(row[0]), "log_probabilities": row}

  return _by_sequence(parts, compute)


def _span(parts: _Parts) -> Callable[[list], list]:
  settings, tokenizer, network, batch_size, cut = parts
  lengths = squad_windowing.lengths_of(settings, tokenizer.specials)
  options = squad_answers.options_of(settings)._replace(
    null_score_diff_threshold=settings.null_score_diff_threshold or 0.0
  )

  def answer(rows: list, top_k: int = 0) -> list:
    predictions = squad_answers.answer_texts(
      rows, network, tokenizer, lengths, options, batch_size=batch_size, cut=cut
    )
    return [_described_span(*each, top_k) for each in zip(predictions, rows)]

  return answer


def _described_span(answer: Any, texts: tuple, top_k: int) -> dict:
  context = texts[1]
  # Without null odds, `text` may be "empty", the original's placeholder.
  text = answer.best_text if answer.null_odds is None else answer.text
  place = answer.places.get(text)
  start, end = alignment.in_context(context, place) if place else (0, 0)
  score = _NO_ANSWER if answer.score is None else answer.score
  result = {
    "answer": text,
    "score": score,
    "start": start,
    "end": end,
    "null_score": answer.null_score,
  }
  if top_k:
    result["candidates"] = squad_answers.n_best(answer, context, top_k)
  return result


def _tagging(parts: _Parts) -> Callable[[list], list]:
  settings, tokenizer, network, batch_size, cut = parts
  return lambda rows: tagging_answers.tag_texts(
    [text for (text,) in rows],
    lambda batch: network(**batch)["probabilities"],
    settings.labels,
    tokenizer,
    max_seq_length=settings.max_seq_length,
    batch_size=batch_size,
    at_punctuation=settings.tag_words == "punctuation",
    cut=cut,
  )


_HEADS = {
  "classification": _classification,
  "embedding": _embedding,
  "masked_lm": _masked_lm,
  "next_sentence": _next_sentence,
  "span": _span,
  "sparse": _embedding,
  "tagging": _tagging,
}
