"""A plain BERT in JAX, to compare with the XLA programs of this project.

It computes all positions in all layers, uses the device's random generator for
dropout, float32 for softmax and layer norm, gradient clipping, and AdamW.
"""

import functools
import itertools

import jax
import jax.numpy as jnp


def shapes(values: dict) -> dict[str, tuple]:
  """Returns {name of a weight: shape} for a dict of sizes."""
  width, inner = values["hidden_size"], values["intermediate_size"]
  layers = range(values["num_hidden_layers"])
  dense = {"pool": (width, width), "word": (width, width), "pair": (width, 2)}
  for n in layers:
    dense |= {f"{n}{name}": (width, width) for name in "qkvo"}
    dense |= {f"{n}in": (width, inner), f"{n}out": (inner, width)}
  norms = ["", *(f"{n}{x}" for n in layers for x in "xy")]
  rows = {"words": values["vocab_size"], "positions": 512, "segments": 2}
  return {
    **{name: (count, width) for name, count in rows.items()},
    **{f"{name}/kernel": shape for name, shape in dense.items()},
    **{f"{name}/bias": shape[1:] for name, shape in dense.items()},
    **{f"{name}/{x}": (width,) for name in norms for x in ("gamma", "beta")},
  }


def _dense(x, w, name):
  kernel, bias = w[f"{name}/kernel"], w[f"{name}/bias"]
  return x @ kernel.astype(x.dtype) + bias.astype(x.dtype)


def _norm(x, w, name):
  centred = x.astype(jnp.float32)
  centred -= centred.mean(-1, keepdims=True)
  variance = jnp.square(centred).mean(-1, keepdims=True) + 1e-12
  normed = centred * jax.lax.rsqrt(variance) * w[f"{name}/gamma"]
  return (normed + w[f"{name}/beta"]).astype(x.dtype)


def predict(w, batch, key=None, *, values, dtype):
  """Returns hidden states [B, T, H] and next-sentence logits [B, 2]."""
  (ids, mask, segments, *_), site = batch, itertools.count()

  def drop(x):
    if key is None:
      return x
    site_key = jax.random.fold_in(key, next(site))
    return jnp.where(jax.random.bernoulli(site_key, 0.9, x.shape), x / 0.9, 0)

  x = w["words"][ids] + w["segments"][segments] + w["positions"][: ids.shape[1]]
  x = drop(_norm(x, w, "")).astype(dtype)
  bias = -1e4 * (1 - mask[:, None, None].astype(jnp.float32))  # [B, 1, 1, T]
  for n in range(values["num_hidden_layers"]):
    heads = *ids.shape, values["num_attention_heads"], -1
    q, k, v = (_dense(x, w, f"{n}{name}").reshape(heads) for name in "qkv")
    scores = jnp.einsum("bfnd,btnd->bnft", q, k).astype(jnp.float32)
    probs = jax.nn.softmax(scores / q.shape[-1] ** 0.5 + bias).astype(dtype)
    y = jnp.einsum("bnft,btnd->bfnd", drop(probs), v).reshape(x.shape)
    x = _norm(x + drop(_dense(y, w, f"{n}o")), w, f"{n}x")
    y = _dense(jax.nn.gelu(_dense(x, w, f"{n}in")), w, f"{n}out")
    x = _norm(x + drop(y), w, f"{n}y")
  pooled = jnp.tanh(_dense(x[:, 0], w, "pool")).astype(jnp.float32)
  return x, _dense(pooled, w, "pair")


def _loss(w, batch, key, **options):
  def cross_entropy(logits, labels):
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(log_probs, labels[..., None], -1).mean()

  states, logits = predict(w, batch, key, **options)
  loss = cross_entropy(logits, batch[-1].reshape(-1))
  if len(batch) > 4:  # Positions and ids of masked tokens, [B, P] each.
    x = jnp.take_along_axis(states, batch[3][..., None], 1)
    x = jax.nn.gelu(_dense(x, w, "word"))
    loss += cross_entropy(x @ w["words"].astype(x.dtype).T, batch[4])
  return loss


def train(state, batch, step, **options):
  """Returns the loss and the next state, a list of weights and moments."""
  key = jax.random.fold_in(jax.random.key(1, impl="rbg"), step)
  loss, grads = jax.value_and_grad(_loss)(state[0], batch, key, **options)
  norm = jnp.sqrt(sum(jnp.vdot(grad, grad) for grad in grads.values()))
  c1, c2 = 1 - 0.9 ** (step + 1.0), 1 - 0.999 ** (step + 1.0)

  def update(grad, w, m, v):
    grad /= jnp.maximum(norm, 1)
    m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad * grad
    return w - 1e-5 * (m / c1 / (jnp.sqrt(v / c2) + 1e-6) + 0.01 * w), m, v

  new = {n: update(grad, *(x[n] for x in state)) for n, grad in grads.items()}
  return loss, [{n: new[n][i] for n in new} for i in range(3)]


def _jitted(work):
  """Returns `predict`, or `train` with a state that is updated in place."""
  options = {"values": work.values, "dtype": work.dtype}
  if work.method == "predict":
    return jax.jit(functools.partial(predict, **options))
  return jax.jit(functools.partial(train, **options), donate_argnums=0)


def step_of(work):
  """Returns a function that runs a Work's next step and returns its result."""
  compute, count, batch = _jitted(work), itertools.count(), work.batch()
  key = jax.random.key(0)
  weights = {
    name: 0.02 * jax.random.normal(jax.random.fold_in(key, index), shape)
    for index, (name, shape) in enumerate(shapes(work.values).items())
  }
  if work.method == "predict":
    return lambda: compute(weights, jax.device_put(batch))[1]
  zeros = [jax.tree.map(jnp.zeros_like, weights) for _ in range(2)]
  state = [[weights, *zeros]]

  def step():
    loss, state[0] = compute(state[0], jax.device_put(batch), next(count))
    return loss

  return step


def compiled(work, device):
  """Returns the executable of a step_speed.Work."""
  sharding = jax.sharding.SingleDeviceSharding(device)
  return lowered(work, sharding).compile().runtime_executable()


def lowered(work, sharding=None):
  """Returns the jax.stages.Lowered of a step_speed.Work."""
  spec = functools.partial(jax.ShapeDtypeStruct, sharding=sharding)
  weights = {n: spec(s, jnp.float32) for n, s in shapes(work.values).items()}
  batch = [spec(x.shape, x.dtype) for x in work.batch()]
  arguments = [[weights] * 3, batch, spec((), jnp.int32)]
  if work.method == "predict":
    arguments = [weights, batch]
  return _jitted(work).lower(*arguments)
