"""Runs a model of transformers in a process without TensorFlow.

PyTorch's GPU wheels install triton. A process that loads triton's and
TensorFlow's copies of LLVM crashes. So tests run this file as a script:
transformers_run.py FOLDER ARCHITECTURE INPUTS.npz OUTPUTS.npz
"""

import sys

import numpy as np
import torch
import transformers

# {end of the class name: {output name in transformers: output name here}}.
OUTPUTS = {
  "PreTraining": {
    "prediction_logits": "masked_lm",
    "seq_relationship_logits": "next_sentence",
    "sop_logits": "next_sentence",  # ALBERT: the order of two sentences.
  },
  "MaskedLM": {"logits": "masked_lm"},
  "NextSentencePrediction": {"logits": "next_sentence"},
  "TokenClassification": {"logits": "labels"},
}


def main(folder, architecture, inputs_path, outputs_path):
  model = getattr(transformers, architecture).from_pretrained(folder).eval()
  with np.load(inputs_path) as batch:
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
  for output_name, name in OUTPUTS.get(head, {}).items():
    if output_name in output:
      outputs[name] = output[output_name]
  if head == "QuestionAnswering":
    outputs["span"] = torch.stack([output.start_logits, output.end_logits])
  np.savez(
    outputs_path, **{name: value.numpy() for name, value in outputs.items()}
  )


if __name__ == "__main__":
  main(*sys.argv[1:])
