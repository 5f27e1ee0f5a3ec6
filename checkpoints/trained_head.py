"""Which heads the weights of a model have, and so what it can be asked for."""

import re

import configuration
from checkpoints import weight_files
from common import errors, file_io, json_files, run_settings

# The task of a head, and the variable that shows that the weights have it.
_HEADS = {
  "classification": ("classify", "output_weights"),
  "tagging": ("tag words", "output_weights"),
  "span": ("answer questions", "cls/squad/output_weights"),
  "masked_lm": ("fill in [MASK]", "cls/predictions/output_bias"),
  "next_sentence": (
    "tell whether a text follows", "cls/seq_relationship/output_weights"
  ),
}
_TRAINED_BY = {
  "classification": "run_classifier.py", "tagging": "run_ner.py",
  "span": "run_squad.py", "masked_lm": "run_pretraining.py",
  "next_sentence": "run_pretraining.py",
}


def require(head: str, settings: run_settings.Settings) -> None:
  """Refuses weights that were trained for other heads than the one needed.

  Every model can make vectors. Weights in a run's own folder were written by
  its script, so they are not checked.

  Args:
    head: one of choices.SERVING_HEADS.
    settings: `bert_config_file`, `init_checkpoint` and, of a script that
      trains, `output_dir`.

  Raises:
    InputError: the weights have no such head, or cannot be read.
  """
  if head == "embedding" or _has_checkpoint(settings.get("output_dir")):
    return
  if not settings.init_checkpoint:
    return
  values = json_files.read(settings.bert_config_file)
  names = weight_files.open_reader(settings.init_checkpoint).shapes
  heads = [name for name, (_, variable) in _HEADS.items() if variable in names]
  # The variables of these two have the same names.
  if "tagging" in heads and (known := configuration.head_of(values)):
    heads = [known, *(h for h in heads if _HEADS[h][1] != "output_weights")]
  if head in heads:
    return
  name = settings.get("model_dir") or settings.init_checkpoint
  use = _HEADS[head][0]
  if not heads:
    raise errors.InputError(
      f"{name} has no head to {use}: it is an encoder alone; train the head "
      f"first ({_TRAINED_BY[head]}), or name a model that has one"
    )
  done = " and ".join(_HEADS[each][0] for each in heads)
  labels = ", ".join((values.get("id2label") or {}).values())
  raise errors.InputError(
    f"{name} was trained to {done}{f' ({labels:.200})' if labels else ''}, not "
    f"to {use}; name a model that was, or train this one for it "
    f"({_TRAINED_BY[head]} --do_train)"
  )


def _has_checkpoint(folder):
  """Whether a run has left weights in its folder."""
  return bool(folder) and any(
    re.match(r"model\.ckpt-\d+\.index$", name)
    for name in file_io.names_in(folder)
  )
