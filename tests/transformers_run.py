"""Runs a model of transformers, in a process without TensorFlow.

PyTorch's wheels for GPUs bring triton, whose copy of LLVM and TensorFlow's end
a process that loads both. So this is run as a script, and imports nothing of
the project: transformers_run.py FOLDER ARCHITECTURE GIVEN.npz FOUND.npz
"""

import sys

import numpy as np
import torch
import transformers

# What transformers calls the logits of its classes -> what we do
OUTPUTS = {
  "PreTraining": {
    "prediction_logits": "masked_lm",
    "seq_relationship_logits": "next_sentence",
    "sop_logits": "next_sentence",  # Of ALBERT: the order of two sentences.
  },
  "MaskedLM": {"logits": "masked_lm"},
  "NextSentencePrediction": {"logits": "next_sentence"},
  "TokenClassification": {"logits": "labels"},
}


def main(folder, architecture, given, found):
  model = getattr(transformers, architecture).from_pretrained(folder).eval()
  with np.load(given) as batch:
    ids, mask, types = (
      torch.from_numpy(batch[name].astype(np.int64)) for name in batch.files
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
  for theirs, ours in OUTPUTS.get(head, {}).items():
    if theirs in output:
      outputs[ours] = output[theirs]
  if head == "QuestionAnswering":
    outputs["span"] = torch.stack([output.start_logits, output.end_logits])
  np.savez(found, **{name: value.numpy() for name, value in outputs.items()})


if __name__ == "__main__":
  main(*sys.argv[1:])
