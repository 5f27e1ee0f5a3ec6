"""Hugging Face's steps for step_speed.py, on the GPU if there is one."""

import os

import numpy as np
import torch
import transformers
from torch.utils import mkldnn

from step_speed import CLIP, DECAY, RATE

_NAMES = ("input_ids", "attention_mask", "token_type_ids", "labels")


class _Steps:
  """A transformers network with torch's AdamW, in float32 or autocast."""

  network = ""  # Name of an Auto class in transformers.

  def __init__(
    self, values, *, dtype, compiled=False, onednn=False, attention="sdpa"
  ):
    """Creates a network with random weights from a dict of sizes.

    `compiled` means torch.compile. `onednn` uses oneDNN for float32 inference
    on a CPU. On AMD processors, it is 2× faster than MKL, the default.
    """
    # Use TF32 on a GPU, as TensorFlow does by default.
    torch.set_float32_matmul_precision("high")
    # By default, torch uses only half of the cores on some processors.
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    self._device = "cuda" if torch.cuda.is_available() else "cpu"
    self._precision = torch.autocast(
      self._device, torch.bfloat16, enabled=dtype == "bfloat16"
    )
    # As in this project, BERT's GELU has the tanh form, a single operation.
    same = {"hidden_act": "gelu_pytorch_tanh", "num_labels": 2}
    config = transformers.AutoConfig.for_model(
      **{"model_type": "bert", **values, **same}
    )
    self._has_segments = config.model_type == "bert"
    auto = getattr(transformers, self.network)
    model = auto.from_config(config, attn_implementation=attention)
    self._run = self._model = model.to(self._device)
    self._optimizer = torch.optim.AdamW(
      self._model.parameters(), lr=RATE, weight_decay=DECAY, fused=True
    )
    if compiled:
      self._run = torch.compile(self._model)
    if onednn:
      self._run = mkldnn.to_mkldnn(self._model.eval())

  def wait(self):
    """Waits until the device has finished its work."""
    # On a CPU, torch has finished when a call returns.
    if self._device == "cuda":
      torch.cuda.synchronize()

  def _outputs(self, batch, **more):
    """Returns the network's outputs for ids, mask, segments and labels."""
    arrays = dict(zip(_NAMES, batch)) | more
    if not self._has_segments:
      del arrays["token_type_ids"]
    inputs = {
      name: torch.from_numpy(array.astype(np.int64)).to(self._device)
      for name, array in arrays.items()
    }
    with self._precision:
      return self._run(**inputs)

  def _step(self, batch, **more):
    """Takes a training step with the network's own loss."""
    self._model.train()
    self._outputs(batch, **more).loss.backward()
    torch.nn.utils.clip_grad_norm_(self._model.parameters(), CLIP)
    self._optimizer.step()
    self._optimizer.zero_grad()


class Classifier(_Steps):
  """transformers' classifier with two labels."""

  network = "AutoModelForSequenceClassification"

  def train(self, batch):
    """Takes a training step on ids, mask, segments [B, T] and labels [B]."""
    self._step(batch)

  def predict(self, batch):
    """Computes the logits of a batch."""
    self._model.eval()
    with torch.inference_mode():
      self._outputs(batch)


class Pretraining(_Steps):
  """transformers' BertForPreTraining, with logits at all positions."""

  network = "AutoModelForPreTraining"

  def pretrain(self, batch):
    """Takes a training step on a step_speed.PretrainingBatch."""
    # torch's cross-entropy ignores -100.
    labels = np.full(batch.input_ids.shape, -100)
    np.put_along_axis(labels, batch.masked_lm_positions, batch.masked_lm_ids, 1)
    next_sentences = batch.next_sentence_labels[:, 0]
    self._step((*batch[:3], labels), next_sentence_label=next_sentences)
