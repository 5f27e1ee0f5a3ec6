"""Reads the texts and options in the body of a request. No TensorFlow."""

from typing import Any

from common import errors

SCHEMA = {
  "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
}


def field(values: dict, name: str) -> tuple[list[str], bool]:
  """Returns a field's texts, and whether it was a single one, not a list.

  Raises InputError: the field is missing, empty, or has something else.
  """
  value = values.get(name)
  texts = [value] if isinstance(value, str) else value
  if isinstance(texts, list) and texts and all(map(_is_text, texts)):
    return texts, isinstance(value, str)
  advice = ""
  if isinstance(texts, list) and any(isinstance(t, (int, list)) for t in texts):
    advice = (
      ", not numbers of tokens, which differ between models (in LangChain: "
      "check_embedding_ctx_length=False)"
    )
  raise errors.InputError(
    f'"{name}" is {value!a:.60}; expected a text or a list of texts{advice}'
  )


def _is_text(value: Any) -> bool:
  # A lone surrogate, such as JSON's "\ud800", cannot be encoded.
  return isinstance(value, str) and not any(
    "\ud800" <= char <= "\udfff" for char in value
  )


def option(values: dict, name: str, default: Any) -> Any:
  """Returns an optional field; raises InputError if it has another type."""
  value = values.get(name)
  if value is None:
    return default
  kind = type(default) if default is not None else int
  if type(value) is not kind:
    raise errors.InputError(
      f'"{name}" is {value!a:.60}; expected a value of the type {kind.__name__}'
    )
  return value


def refuse_unknown(values: dict, schema: dict[str, Any]) -> None:
  """Raises InputError for a field that the schema of a request lacks."""
  names = schema["properties"]
  unknown = sorted(values.keys() - {*names})
  if unknown:
    raise errors.InputError(
      f"unknown field {unknown[0]!a}; known: {', '.join(names)}"
    )
