"""Random batches whose sequences are packed into shared rows."""

import numpy as np
import tensorflow as tf

from records import packing

LENGTH = 12


def random_masks(count, *, seed, holes=True, empty=0, longest=LENGTH):
  """Masks [count, T] of sequences of 1 to `longest` tokens.

  Every third has holes, the last `empty` have no token at all.
  """
  rng = np.random.RandomState(seed)
  lengths = rng.randint(1, longest + 1, [count])
  mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
  if holes:
    mask[::3] *= rng.randint(0, 2, [LENGTH], dtype=np.int32)
  if empty:
    mask[-empty:] = 0
  return mask


def batch_of(mask, seed=0):
  rng = np.random.RandomState(seed)
  shape = mask.shape
  arrays = {
    "input_ids": rng.randint(0, 30, shape), "input_mask": mask,
    "segment_ids": rng.randint(0, 2, shape),
  }
  return {k: tf.constant(v, tf.int32) for k, v in arrays.items()}


def packed(batch, parts=1):
  lengths = packing.lengths_to_pack(batch["input_mask"], parts)
  rows, slots = packing.first_fit(lengths, batch["input_mask"].shape[-1])
  is_there = lengths.numpy() > 0
  fits = packing.Packing(
    int(rows.numpy()[is_there].max()) + 1,
    int(slots.numpy()[is_there].max()) + 1, parts,
  )
  return fits.with_plan(batch)
