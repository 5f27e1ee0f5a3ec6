"""Compares the facts of a message, so that its wording may change."""

import re


def says(*facts: str) -> str:
  """Returns a pattern of a line with all the facts, in any order.

  Facts are files with lines, flags, values and names, and a word that
  distinguishes the cause, such as "no" or "twice". A word or a number is not a
  part of a longer one.
  """
  return "(?m)^" + "".join(f"(?=.*{_whole(fact)})" for fact in facts)


def _whole(fact: str) -> str:
  if fact.isalpha():
    return rf"\b{re.escape(fact)}\b"
  start = r"(?<![\w.])" if fact[0].isdecimal() else ""
  end = r"(?!\w|\.\d)" if fact[-1].isdecimal() else ""
  return start + re.escape(fact) + end
