"""Flags of extract_features.py that would have no effect: refused."""

from common import choices, run_settings

# Of --input_file: texts come on the standard input.
STANDARD_INPUT = "-"


def answers_stream(settings):
  """Whether the lines of the standard input are to be answered."""
  return settings.input_file == STANDARD_INPUT


def computes_vectors(settings):
  """Whether vectors are to be written, to a file or as answers."""
  return bool(settings.output_file or answers_stream(settings))


CONFLICTS = (
  run_settings.Conflict(
    "output_file output_format attention_html embedding_plot picture_lines",
    answers_stream,
    "is for a file of texts; the vectors of --input_file=- go to the standard "
    "output as JSON lines: leave it out",
  ),
  run_settings.Conflict(
    "output_format pooling similarity normalize batch_size jit_compile",
    lambda settings: not computes_vectors(settings),
    "is for the vectors in --output_file; pass both, or leave it out",
  ),
  run_settings.Conflict(
    "picture_lines",
    lambda settings: not (settings.attention_html or settings.embedding_plot),
    "is for --attention_html and --embedding_plot; pass one of them too, or "
    "leave it out",
  ),
  run_settings.Conflict(
    "layers",
    lambda settings: not (
      computes_vectors(settings) or settings.embedding_plot
    ),
    "is for --output_file and --embedding_plot; pass one of them too, or "
    "leave it out",
  ),
  run_settings.Conflict(
    "layers",
    lambda settings: settings.pooling,
    "is for the vectors of tokens, but --pooling makes one of the line (from "
    "the last layer, or the last four); pass one of them",
  ),
  run_settings.Conflict(
    "similarity",
    lambda settings: not settings.pooling,
    "compares one vector for each text: pass --pooling=mean, or another of "
    + ", ".join(choices.SENTENCE_POOLINGS),
  ),
  run_settings.Conflict(
    "normalize",
    lambda settings: not settings.pooling,
    "scales one vector for each text: pass --pooling=mean, or another of "
    + ", ".join(choices.SENTENCE_POOLINGS),
  ),
  run_settings.Conflict(
    "normalize",
    lambda settings: settings.similarity,
    "changes no cosine; leave --similarity or --normalize out",
  ),
)
