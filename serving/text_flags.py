"""Answers the texts that flags give: one line of JSON per text, in order.

  python run_classifier.py --text="A fine film." --model_dir=final_model
  cut -f2 films.tsv | python run_classifier.py --text=- --model_dir=final_model

A script calls `define` with its other flags and, after the flags are parsed,
`run`. serve.py gives the same answers. An export for ONNX Runtime or LiteRT
needs no TensorFlow.
"""

import itertools
from collections.abc import Callable, Iterator

from answering import export_options
from common import command, errors, flags, run_settings, standard_input

_names: list[str] = []  # The flags for an example's first and second text.
_MOST = 1024  # Examples that are answered together; more pad less.
# Flags with an effect that are not options of text_models.
_OTHERS = (
  "do_predict predict_batch_size batch_size similarity sparse verbose download"
)


def define(*names: str) -> None:
  """Defines the flags for an example's first and perhaps its second text."""
  _names[:] = names
  flags.DEFINE_multi_string(
    names[0],
    [],
    "Text to answer on standard output, as JSON; repeatable. - reads one per "
    "line of standard input (two are separated by a tab or ' ||| ').",
  )
  for name in names[1:]:
    meaning = f"Second text for each --{names[0]}, or one for all; repeatable."
    flags.DEFINE_multi_string(name, [], meaning)
  command.check_early(_check)


def are_given() -> bool:
  """Whether a flag gives texts."""
  return any(flags.FLAGS[name].value for name in _names)


def is_export() -> bool:
  """Whether --model_dir is an export that needs no TensorFlow."""
  # Imported here, because --help does not need NumPy.
  from engines import networks

  return bool(networks.engine_of(flags.FLAGS.model_dir or ""))


def need_tensorflow() -> bool:
  """Whether the command needs TensorFlow: texts and an export do not."""
  return not (are_given() and is_export())


def run(head: str) -> None:
  """Prints the answers of a head of --model_dir, and ends the process."""
  command.run(lambda _: _print_answers(flags.read_settings(check=False), head))


def _check() -> None:
  """Refuses flags without effect, and numbers of texts that do not match."""
  if not are_given():
    return
  known = {*_names, *_OTHERS.split(), *export_options.BY_NAME}
  given = [flag.name for flag in flags.of_script() if flag.present]
  if unused := ", ".join(f"--{name}" for name in given if name not in known):
    raise errors.InputError(
      f"--{_names[0]} prints the answers of a trained model, so {unused} would "
      "have no effect; leave it out"
    )
  texts: list[list[str]] = [flags.FLAGS[name].value or [] for name in _names]
  if [*itertools.chain(*texts)].count("-") > 1:
    raise errors.InputError("- is given twice, but there is one standard input")
  first, second = [*map(len, texts), 0][:2]
  if not first or (second > 1 and first not in (1, second)):
    raise errors.InputError(
      f"{first} --{_names[0]}, but {second} --{_names[1]}: give each once per "
      "example, or one of them once for all examples"
    )


def _print_answers(settings: run_settings.Settings, head: str) -> None:
  # Imported here, because --help does not need NumPy.
  from checkpoints import model_folder
  from common import console, json_files
  from serving import text_models

  console.show_warnings_alone()
  options = settings.pick(settings.given & export_options.BY_NAME.keys())
  if threshold := options.get("null_score_diff_threshold"):
    options["null_score_diff_threshold"] = _number(threshold)
  sizes = sorted(settings.given & {"predict_batch_size", "batch_size"})
  options["batch_size"] = settings.get(sizes[0]) if sizes else 32
  folder = options.pop("model_dir", None)
  bert = text_models.load(folder, **options)
  # Another program's classifier does not tell whether it takes pairs.
  is_pair = head == "classification" and bool(settings.get("text_b"))
  trained = model_folder.input_settings(bert.config.to_dict())
  if is_pair and not trained and not is_export():
    bert = text_models.load(folder, text_pairs=True, **options)
  model = bert.servable(head)
  similarity = settings.get("similarity", False)
  # The heads for vectors take one text or two, and accept empty texts.
  is_vector = head in ("embedding", "sparse")
  count = 2 if similarity else 0 if is_vector else len(model.texts)
  answerer = model.answerer()
  examples = _examples(settings, count)
  for block in standard_input.as_they_arrive(examples, _MOST):
    rows = [row for _, row in block]
    for place, row in block if not is_vector else ():
      for text in row:
        errors.require_text(text, place)
    for answer in _cosines(answerer, rows) if similarity else answerer(rows):
      console.print_line(json_files.line(answer).rstrip("\n"))
    errors.flush_output()


def _number(text: str) -> float:
  """Returns the value of --null_score_diff_threshold, a flag with a string."""
  try:
    return float(text)
  except ValueError as error:
    raise errors.InputError(
      f"--null_score_diff_threshold={text}: expected a number"
    ) from error


def _cosines(answerer: Callable[[list], list], rows: list) -> list[dict]:
  """Returns {"similarity": cosine} for each pair of texts."""
  import numpy as np

  from features import vector_search

  found = answerer([(text,) for row in rows for text in row])
  vectors = np.array([each["embedding"] for each in found], np.float32)
  cosines = vector_search.cosines(vectors[::2], vectors[1::2])
  return [{"similarity": value} for value in cosines.tolist()]


def _examples(
  settings: run_settings.Settings, count: int
) -> Iterator[tuple[str, tuple]]:
  """Yields (place, texts) of each example; `count`: its texts, 0: 1 or 2."""
  from features import text_batches

  given = {name: settings.get(name) for name in _names if settings.get(name)}
  several = {name: len(v) > 1 or v[0] == "-" for name, v in given.items()}
  streams = [
    # A single text serves all examples if the other flag gives several.
    _texts(name, values, any(several.values()) and not several[name])
    for name, values in given.items()
  ]
  for parts in zip(*streams):
    places, row = zip(*parts)
    if len(row) == 1 and count != 1:
      first, tab, second = row[0].partition("\t")
      is_tab = tab and count == 2
      row = (first, second) if is_tab else text_batches.split_pair(row[0])
      row = row if row[1] is not None else row[:1]
    if count not in (0, len(row)):
      raise errors.InputError(
        f"{places[0]}: this model takes {count} text{'s' * (count > 1)}: pass "
        f"{' and '.join(f'--{name}' for name in _names[:count])}, or a line "
        "with a tab or ' ||| ' between its texts"
      )
    yield max(places), row


def _texts(
  name: str, values: list[str], for_all: bool
) -> Iterator[tuple[str, str]]:
  """Yields (place, text) of each value of a flag; - reads standard input."""
  for value in itertools.cycle(values) if for_all else values:
    yield from (
      standard_input.lines() if value == "-" else [(f"--{name}", value)]
    )
