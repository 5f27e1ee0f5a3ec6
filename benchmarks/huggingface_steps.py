"""Hugging Face's training steps and inference, for step_speed.py.

Networks run on the GPU, if any.
"""

import contextlib
import os

import numpy as np
import torch
import transformers
from torch.utils import mkldnn

from step_speed import CLIP, DECAY, RATE

_NAMES = ("input_ids", "attention_mask", "token_type_ids", "labels")


class _Steps:
  """A transformers network with torch's AdamW, in float32 or autocast."""

  network = ""  # Name of a class in transformers.

  def __init__(
    self, values, *, dtype, compiled=False, onednn=False, attention="sdpa"
  ):
    """Creates a network with random weights from a dict of sizes.

    "bfloat16" means autocast, and `compiled` means torch.compile. `onednn` uses
    oneDNN for float32 inference on a CPU. On AMD processors, it is 2× faster
    than MKL, the default. `attention` is "sdpa" or "eager".
    """
    # Use TF32 on a GPU, as TensorFlow does by default.
    torch.set_float32_matmul_precision("high")
    # By default, torch uses only half of the cores on some processors.
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    self._device = "cuda" if torch.cuda.is_available() else "cpu"
    self._precision = torch.autocast(
      self._device, torch.bfloat16, enabled=dtype == "bfloat16"
    )
    # As in this project, GELU has the tanh form and is a single operation.
    config = transformers.BertConfig(
      **{
        **values,
        "hidden_act": "gelu_pytorch_tanh",
        "num_labels": 2,
        "attn_implementation": attention,
      }
    )
    self._set_model(getattr(transformers, self.network)(config))
    if compiled:
      self._run = torch.compile(self._model)
    if onednn:
      self._run = mkldnn.to_mkldnn(self._model.eval())

  @classmethod
  def of_model(cls, model):
    """Returns the steps of a network of transformers, in float32."""
    steps = cls.__new__(cls)
    steps._device = "cuda" if torch.cuda.is_available() else "cpu"
    steps._precision = contextlib.nullcontext()
    steps._set_model(model)
    return steps

  def _set_model(self, model):
    self._run = self._model = model.to(self._device)
    self._optimizer = torch.optim.AdamW(
      self._model.parameters(), lr=RATE, weight_decay=DECAY, fused=True
    )

  def wait(self):
    """Waits until the device has finished its work."""
    # On a CPU, torch has finished when a call returns.
    if self._device == "cuda":
      torch.cuda.synchronize()

  def _outputs(self, arrays):
    with self._precision:
      return self._run(
        **{
          name: torch.from_numpy(array.astype(np.int64)).to(self._device)
          for name, array in arrays.items()
        }
      )

  def _step(self, arrays):
    """Takes a training step with the network's own loss."""
    self._model.train()
    self._outputs(arrays).loss.backward()
    torch.nn.utils.clip_grad_norm_(self._model.parameters(), CLIP)
    self._optimizer.step()
    self._optimizer.zero_grad()


class Classifier(_Steps):
  """transformers' BertForSequenceClassification with two labels."""

  network = "BertForSequenceClassification"

  def train(self, batch):
    """Takes a training step on ids, mask, segments [B, T] and labels [B]."""
    self._step(dict(zip(_NAMES, batch)))

  def predict(self, batch):
    """Computes the logits of a batch."""
    self._model.eval()
    with torch.inference_mode():
      self._outputs(dict(zip(_NAMES, batch)))


class Pretraining(_Steps):
  """transformers' BertForPreTraining, with logits at all positions."""

  network = "BertForPreTraining"

  def pretrain(self, batch):
    """Takes a training step on a step_speed.PretrainingBatch."""
    # torch's cross-entropy ignores -100.
    labels = np.full(batch.input_ids.shape, -100)
    np.put_along_axis(labels, batch.masked_lm_positions, batch.masked_lm_ids, 1)
    self._step(
      {
        **dict(zip(_NAMES, batch[:3])),
        "labels": labels,
        "next_sentence_label": batch.next_sentence_labels[:, 0],
      }
    )
