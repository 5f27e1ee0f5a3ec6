"""Finds the place of a record in interleaved files without reading them.

tf.data interleaves files by turns: each of `cycle` slots holds a file and gives
one record a turn. A file that has ended gives nothing in its next turn and
leaves its slot, which opens the next file in the turn after that.
"""

from typing import NamedTuple


class Opened(NamedTuple):
  """A file, and how many of its records were read."""

  file: int
  records_read: int


def after(counts: list[int], skipped: int, cycle: int) -> list[Opened]:
  """Returns the files that are still to be read after `skipped` records.

  If their unread rests are interleaved in this order, with the same `cycle`,
  the records follow in the same order as in an interleaving from the start.

  Args:
    counts: the number of records of each file, in the order of the files.
    skipped: at most the sum of `counts`.
    cycle: the number of files that are read by turns.
  """
  slots: list[Opened | None] = [None] * cycle
  turn = opened = 0
  while skipped:
    # Whole rounds at once, as long as no file ends and no slot opens one.
    full = [slot for slot in slots if slot]
    if full and turn == 0 and (len(full) == cycle or opened == len(counts)):
      shortest = min(counts[slot.file] - slot.records_read for slot in full)
      rounds = min(shortest, skipped // len(full))
      slots = [
        slot and slot._replace(records_read=slot.records_read + rounds)
        for slot in slots
      ]
      skipped -= rounds * len(full)
      if not skipped:
        break
    slot = slots[turn]
    if not slot and opened < len(counts):
      slot, opened = Opened(opened, 0), opened + 1
    if slot and slot.records_read < counts[slot.file]:
      slots[turn] = slot._replace(records_read=slot.records_read + 1)
      skipped -= 1
    else:
      slots[turn] = None
    turn = (turn + 1) % cycle
  # A slot without a file opens the next one when its turn comes.
  rest = []
  for slot in slots[turn:] + slots[:turn]:
    if not slot and opened < len(counts):
      slot, opened = Opened(opened, 0), opened + 1
    if slot:
      rest.append(slot)
  return rest + [Opened(file, 0) for file in range(opened, len(counts))]
