"""Two pieces of text -> one input of the model: [CLS] a [SEP] b [SEP].

Plain lists of ids; no TensorFlow. Used wherever a text becomes an input, in
pre-training, fine-tuning and feature extraction alike.
"""

# As in the original: between the two texts of a line.
TEXT_SEPARATOR = " ||| "


def truncate_pair(tokens_a, tokens_b, max_length):
  """Shortens two lists in place until they have `max_length` items together.

  The longer one loses its last item, the second one where both are equally
  long: a short question keeps its words while a long passage is cut.
  (Pre-training cuts differently: see instance_maker.)

  Args:
    tokens_a, tokens_b: lists of tokens or ids, changed in place.
    max_length: room for both, without [CLS] and [SEP].
  """
  surplus = len(tokens_a) + len(tokens_b) - max_length
  for _ in range(surplus):
    longer = tokens_a if len(tokens_a) > len(tokens_b) else tokens_b
    longer.pop()


def build_inputs(ids_a, ids_b=None, *, cls_id, sep_id):
  """Joins one or two texts with the special tokens.

      [CLS] is this jack ##son ? [SEP] no it is not . [SEP]
        0    0   0    0    0   0   0   1  1  1  1   1   1

  Args:
    ids_a: ids of the first text.
    ids_b: ids of the second text; None (not an empty list) if there is none.
    cls_id, sep_id: ids of [CLS] and [SEP].

  Returns:
    (input_ids, segment_ids), two lists of the same length.
  """
  input_ids = [cls_id, *ids_a, sep_id]
  segment_ids = [0] * len(input_ids)
  if ids_b is not None:
    input_ids += [*ids_b, sep_id]
    segment_ids += [1] * (len(ids_b) + 1)
  return input_ids, segment_ids


def pad(values, length, value=0):
  """Returns `values` followed by as many `value`s as make it `length` long.

  Raises:
    ValueError: `values` is longer than `length`; truncate it before.
  """
  if len(values) > length:
    raise ValueError(f"{len(values)} values do not fit into {length}")
  return [*values, *([value] * (length - len(values)))]
