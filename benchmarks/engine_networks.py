"""Networks of transformers with one result, for the peers of our engines.

A module of its own, so that a process of ONNX Runtime or OpenVINO alone loads
no torch.
"""

import torch
import transformers

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Network(torch.nn.Module):
  """Unit vectors, the mean of the last states, or logits; for inference."""

  def __init__(self, source, head):
    """Makes the network.

    Args:
      source: folder in Hugging Face's layout, or a transformers.BertConfig,
        which means random weights.
      head: "embedding" or "classification".
    """
    super().__init__()
    kind = transformers.AutoModel
    if head == "classification":
      kind = transformers.AutoModelForSequenceClassification
    make = kind.from_pretrained
    if isinstance(source, transformers.PretrainedConfig):
      make = kind.from_config
    self.network = make(source, attn_implementation="sdpa")
    self._has_logits = head == "classification"
    self.eval()

  def forward(self, input_ids, attention_mask, token_type_ids):
    """Returns [B, H] or [B, labels] of ids, mask and segments [B, T]."""
    found = self.network(
      input_ids=input_ids, attention_mask=attention_mask,
      token_type_ids=token_type_ids,
    )
    if self._has_logits:
      return found.logits
    states = found.last_hidden_state
    mask = attention_mask[:, :, None].to(states.dtype)
    mean = (states * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean, dim=1)


def export(network: Network, path) -> None:
  """Writes torch's ONNX graph, of any batch and length."""
  example = tuple(torch.ones([2, 8], dtype=torch.int64) for _ in INPUTS)
  axes = {name: {0: "batch", 1: "length"} for name in INPUTS}
  torch.onnx.export(
    network, example, str(path), input_names=list(INPUTS),
    output_names=["result"], dynamo=False,
    # GELU is one operation from 20 on: ONNX Runtime takes a tenth less time.
    # Its own fusions of BERT (onnxruntime.transformers) made it slower.
    opset_version=20, dynamic_axes={**axes, "result": {0: "batch"}},
  )
