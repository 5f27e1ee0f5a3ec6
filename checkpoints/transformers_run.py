"""Runs a model of transformers, in a process without TensorFlow.

PyTorch's wheels for GPUs bring triton, whose copy of LLVM and TensorFlow's end
a process that loads both. So comparison.py runs this file, which imports
nothing of the project, in a process of its own.
"""

import numpy as np

# What transformers calls the outputs of its classes, such as
# BertForPreTraining -> what we do
_OUTPUTS = {
  "PreTraining": {
    "prediction_logits": "masked_lm",
    "seq_relationship_logits": "next_sentence",
    "sop_logits": "next_sentence",  # Of ALBERT: the order of two sentences.
  },
  "MaskedLM": {"logits": "masked_lm"},
  "NextSentencePrediction": {"logits": "next_sentence"},
  "SequenceClassification": {"logits": "labels"},
  "TokenClassification": {"logits": "labels"},
  "QuestionAnswering": {"start_logits": "start", "end_logits": "end"},
}


def write_outputs(folder, architecture, given, found):
  """Runs a model on a batch, from file to file.

  Args:
    folder: of the model.
    architecture: name of a class of transformers.
    given: .npz file with the batch: ids, mask, types, int32 [B, T].
    found: .npz file to write, the outputs under our names.
  """
  import torch
  import transformers

  model = getattr(transformers, architecture).from_pretrained(folder).eval()
  with np.load(given) as batch:
    ids, mask, types = (
      torch.from_numpy(batch[name].astype(np.int64))
      for name in ("ids", "mask", "types")
    )
  inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
  # DistilBERT takes no segments.
  if not hasattr(model.base_model.embeddings, "token_type_embeddings"):
    del inputs["token_type_ids"]
  with torch.no_grad():
    output = model(**inputs, output_hidden_states=True)
    outputs = {"sequence_output": output.hidden_states[-1]}
    pooled = getattr(model.base_model(**inputs), "pooler_output", None)
    if pooled is not None:
      outputs["pooled_output"] = pooled
  head = architecture.partition("For")[2]
  for theirs, ours in _OUTPUTS.get(head, {}).items():
    if theirs in output:
      outputs[ours] = output[theirs]
  np.savez(found, **{name: value.numpy() for name, value in outputs.items()})
