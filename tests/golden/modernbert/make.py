"""Writes the models and outputs.npz with transformers; see README.md."""

import pathlib
import sys

import numpy as np
import torch
import transformers

here = pathlib.Path(__file__).parent
SHARED = dict(
  vocab_size=40,
  pad_token_id=0,
  bos_token_id=1,
  cls_token_id=1,
  eos_token_id=2,
  sep_token_id=2,
  initializer_range=0.4,
)
# Sizes, windows, kinds of layers, bases, biases, activations, pooling.
CONFIGS = {
  "every_third": dict(
    hidden_size=16,
    num_attention_heads=2,
    intermediate_size=24,
    num_hidden_layers=5,
    local_attention=8,
    classifier_pooling="mean",
  ),
  "local_first": dict(
    hidden_size=24,
    num_attention_heads=3,
    intermediate_size=12,
    num_hidden_layers=3,
    local_attention=4,
    layer_types=["sliding_attention", "full_attention", "sliding_attention"],
  ),
  "biases": dict(
    hidden_size=8,
    num_attention_heads=1,
    intermediate_size=10,
    num_hidden_layers=2,
    local_attention=13,
    attention_bias=True,
    mlp_bias=True,
    norm_bias=True,
    classifier_bias=True,
    norm_eps=1e-3,
    hidden_activation="gelu_pytorch_tanh",
    classifier_activation="relu",
    layer_types=["full_attention", "sliding_attention"],
  ),
  "equal_bases": dict(
    hidden_size=12,
    num_attention_heads=3,
    intermediate_size=20,
    num_hidden_layers=4,
    local_attention=2,
    rope_parameters={
      "full_attention": {"rope_type": "default", "rope_theta": 500.0},
      "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
    },
    classifier_pooling="mean",
    hidden_activation="silu",
  ),
  "only_itself": dict(
    hidden_size=16,
    num_attention_heads=4,
    intermediate_size=16,
    num_hidden_layers=1,
    local_attention=1,
    layer_types=["sliding_attention"],
  ),
}
LABELS = {"SequenceClassification": 3, "TokenClassification": 4}
LABELS |= {"QuestionAnswering": 2, "MultipleChoice": 1}


def randomize(model):
  """Gives every weight, norms and biases included, a random value."""
  for name, weight in model.named_parameters():
    is_gamma = name.endswith("norm.weight")
    values = torch.randn(weight.shape) * (0.1 if is_gamma else 0.25)
    weight.data = values + (1.0 if is_gamma else 0.0)
  return model.eval()


def mask_of(length):
  """Padding after, before and on no side of the tokens, holes, one token."""
  mask = np.ones([5, length], np.int64)
  mask[0, length - length // 3 :] = 0
  mask[1, : length // 4] = 0
  mask[2, 2::5] = 0
  mask[3, 1:] = 0
  return mask


def cotangent(shape, number):
  return np.random.RandomState(number).uniform(-1, 1, shape)


outputs = {}


def add(name, value):
  outputs[name] = np.asarray(value, np.float32)


def of_heads(name, config, whole):
  """Stores the logits of every head on one encoder, and their gradients."""
  rng = np.random.RandomState(len(name))
  batches = {"odd": 37, "window": 24, "one": 1}
  for batch, length in batches.items():
    ids = rng.randint(3, 40, [5, length])
    outputs[f"{name}/{batch}/ids"] = ids.astype(np.int32)
    outputs[f"{name}/{batch}/mask"] = mask_of(length).astype(np.int32)
  models = {"MaskedLM": whole}
  for head, count in LABELS.items():
    config.num_labels = count
    model = getattr(transformers, f"ModernBertFor{head}")(config)
    torch.manual_seed(count)
    randomize(model)
    for part in ("model", "head"):
      getattr(model, part).load_state_dict(getattr(whole, part).state_dict())
    for end in ("weight", "bias"):
      value = getattr(model.classifier, end).detach()
      add(f"{name}/{head}/{end}", value)
    models[head] = model
    if name == "every_third":
      model.save_pretrained(here / f"ModernBertFor{head}")
  if name == "every_third":
    whole.model.save_pretrained(here / "ModernBertModel")
  for head, model in models.items():
    model = model.double()
    for batch in batches:
      ids = torch.tensor(outputs[f"{name}/{batch}/ids"]).long()
      mask = torch.tensor(outputs[f"{name}/{batch}/mask"]).long()
      if head == "MultipleChoice":  # [examples, choices, tokens]
        ids, mask = ids[None], mask[None]
      model.zero_grad()
      output = model(input_ids=ids, attention_mask=mask)
      logits = (
        [output.start_logits, output.end_logits]
        if head == "QuestionAnswering"
        else [output.logits]
      )
      logits = torch.stack(logits, -1).squeeze(-1)
      add(f"{name}/{batch}/{head}", logits.detach())
      if batch != "odd" or head == "MultipleChoice":
        continue
      # The loss: logits of tokens times random numbers.
      factor = torch.tensor(cotangent(logits.shape, 7))
      # Padding is not compared, also where it is the first token.
      factor = factor * (mask[:, :, None] if logits.dim() > 2 else mask[:, :1])
      (logits * factor).sum().backward()
      for weight_name, weight in model.named_parameters():
        if weight.grad is None:
          continue
        if head == "MaskedLM" or not weight_name.startswith("model"):
          add(f"{name}/gradient/{head}/{weight_name}", weight.grad)
        else:
          # One number for each weight of the encoder: a random projection.
          random = cotangent(tuple(weight.shape), 11)
          total = (weight.grad * torch.tensor(random)).sum()
          add(f"{name}/gradient/{head}/{weight_name}", total)
  encoder = whole.double().model
  ids = torch.tensor(outputs[f"{name}/odd/ids"]).long()
  mask = torch.tensor(outputs[f"{name}/odd/mask"]).long()
  with torch.no_grad():
    states = encoder(ids, mask, output_hidden_states=True).hidden_states
  add(f"{name}/odd/hidden_states", torch.stack(states))


def of_long(name, whole):
  """Stores some states of 8192 tokens."""
  ids = np.random.RandomState(1).randint(3, 40, [1, 8192])
  with torch.no_grad():
    states = whole.double().model(torch.tensor(ids))[0]
  add(f"{name}/long/states", states[0, ::511])


for number, (name, changes) in enumerate(CONFIGS.items()):
  torch.manual_seed(number)
  config = transformers.ModernBertConfig(**SHARED, **changes)
  model = randomize(transformers.ModernBertForMaskedLM(config))
  model.save_pretrained(here / name)
  of_heads(name, config, model)
  if name in ("every_third", "local_first"):
    of_long(name, model)
np.savez_compressed(here / "outputs.npz", **outputs)
print(transformers.__version__, torch.__version__, sys.version.split()[0])
