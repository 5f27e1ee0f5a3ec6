"""The flags of vector search. No TensorFlow."""

from common import flags


def define() -> None:
  """Defines --search and the flags that need it."""
  flags.DEFINE_string(
    "search",
    None,
    "File of texts, one per line. Prints, as JSON, the lines of --input_file "
    "nearest to each text. If the files are equal, no line matches itself. "
    "--output_file keeps the vectors.",
    needs="pooling",
    not_with="similarity output_format=jsonl",
  )
  flags.DEFINE_integer(
    "top_k",
    10,
    "Number of lines that --search prints for each text.",
    lower_bound=1,
    needs="search",
  )
  flags.DEFINE_string(
    "vectors_file",
    None,
    "File of vectors to reuse: the --output_file of an earlier --search with "
    "the same --input_file and model.",
    needs="search",
    not_with="output_file",
  )
  flags.DEFINE_string(
    "query_prompt",
    None,
    "Text to put before each text of --search, instead of --prompt. By default "
    "the folder's prompt 'query', if neither prompt is given.",
    needs="search",
  )
