"""One encoder with the heads of --objectives, whose losses are added."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

import configuration
import heads
import layers
import modeling
from pretraining import networks, objectives, points
from records import pipeline
from training import training_step
from variants import registry

IGNORED = "", ""
MASKS = True
_DEFAULT = ("masked_lm", "next_sentence")


def names(settings: Any) -> tuple[str, ...]:
  """Returns the names of the objectives that the flags select."""
  if settings.objectives:
    return tuple(settings.objectives)
  return _DEFAULT if settings.use_next_sentence_loss else _DEFAULT[:1]


def labels(settings: Any) -> dict[str, tuple[int, int | None]]:
  """Returns the features that the objectives read; see networks."""
  modules = map(points.OBJECTIVES.load, names(settings))
  found: dict[str, tuple[int, int | None]] = {}
  for module in modules:
    found |= getattr(module, "LABELS", {})
  return found


def check(config: configuration.BertConfig, settings: Any) -> None:
  """Raises InputError: a model cannot have one of the objectives."""
  for name in names(settings):
    module: Any = points.OBJECTIVES.load(name)
    if hasattr(module, "check"):
      module.check(config, **points.OBJECTIVES.values(name, settings))


def fixed(settings: Any) -> dict[str, Any]:
  """Returns the settings that must not change in a run."""
  values = settings.pick("use_next_sentence_loss")
  if settings.objectives:
    values = {"objectives": list(settings.objectives)}
  for name in names(settings):
    values |= points.OBJECTIVES.values(name, settings)
  return values


class PretrainingModel(networks.Network):
  """The encoder with the heads of its objectives."""

  def __init__(
    self,
    config: configuration.BertConfig,
    names: Iterable[str] = _DEFAULT,
    options: Mapping[str, dict] | None = None,
    **model_options: Any,
  ):
    """Creates the variables.

    Args:
      config: the encoder's configuration.
      names: names for points.OBJECTIVES.
      options: {name of an objective: its options}.
      **model_options: options of modeling.BertModel.
    """
    super().__init__()
    self.config = config
    # Initial weights depend on the seed and the name, so one seed is enough.
    seed = model_options["seed"]
    self.bert = self._make_encoder(**model_options)
    self.objectives: list[objectives.Objective] = []
    for name in names:
      module: Any = points.OBJECTIVES.load(name)
      its_options = (options or {}).get(name, {})
      made = module.make(config, self.bert, seed=seed, **its_options)
      self.objectives += made if isinstance(made, list) else [made]

  def _make_encoder(self, **model_options: Any) -> modeling.BertModel:
    """Returns the encoder; subclasses may return another one."""
    return registry.make_encoder(self.config, **model_options)

  def __call__(
    self, batch: dict, dropout_seed: tf.Tensor | None = None
  ) -> dict[str, tf.Tensor]:
    """Returns {name of an objective: logits}; see objectives.Objective.

    For example, "masked_lm" has [B, P, V], and "next_sentence" has [B, 2].
    `dropout_seed` is int32 [2] in training, else None.
    """
    # The pooled position comes first, because the pooler reads the first state.
    pooled = self.bert.pooled_positions(batch["input_mask"])  # [B, 1]
    if pooled is None:  # A variant that no objective pools.
      pooled = tf.zeros_like(batch["input_mask"][:, :1])
    nothing = pooled[:, :0]
    read = [
      nothing if positions is None else tf.cast(positions, pooled.dtype)
      for positions in (each.positions(batch) for each in self.objectives)
    ]
    # The last layer computes only the states that the heads read. Its dropout
    # depends on their number: another objective changes the masks of its rows.
    positions = tf.concat([pooled, *read], axis=1)  # [B, 1 + sum of K]
    output = self.bert.encode(batch, dropout_seed, positions=positions)
    counts = [1, *(layers.sizes(each)[1] for each in read)]
    _, *states = tf.split(output.sequence_output, counts, axis=1)
    return {
      each.name: each.logits(its_states, output.pooled_output, batch)
      for each, its_states in zip(self.objectives, states)
    }

  def unused_variables(self) -> tuple[str, ...]:
    """Returns patterns of the pooler if no objective reads its output."""
    reads_pooled = any(each.reads_pooled for each in self.objectives)
    return () if reads_pooled else heads.POOLER

  def objective(self) -> training_step.Objective:
    """Returns the weighted sum of the objectives' mean losses in a batch."""

    def denominators(batch: dict) -> dict[str, tf.Tensor]:
      context = tf.distribute.get_replica_context()
      # As in the original: 1e-5 avoids a division by zero in a batch without
      # masked tokens. The shares of all replicas add up to 1e-5.
      epsilon = 1e-5 / context.num_replicas_in_sync
      totals = {}
      for each in self.objectives:
        totals[each.name] = tf.reduce_sum(each.labels(batch)[1])
        if each.may_lack_labels:
          totals[each.name] += epsilon
      return totals

    def sums(
      batch: dict, dropout_seed: tf.Tensor | None
    ) -> tuple[dict[str, tf.Tensor], dict[str, tuple]]:
      losses, metrics = {}, {}
      logits = self(batch, dropout_seed)
      for each in self.objectives:
        labels, counts = each.labels(batch)
        total = tf.reduce_sum(counts)
        for name, values in each.metrics(
          logits[each.name], labels, batch
        ).items():
          metrics[f"{each.name}_{name}"] = tf.reduce_sum(values * counts), total
        losses[each.name] = metrics[f"{each.name}_{each.minimized}"][0]
        if each.weight != 1:
          losses[each.name] *= each.weight
      # Evaluations report only the metrics of the heads.
      if dropout_seed is not None:
        metrics.update(pipeline.token_metrics(batch))
      return losses, metrics

    return training_step.Objective(denominators=denominators, sums=sums)

  def result_names(self) -> list[str]:
    """Returns the names of the evaluation metrics of `objective`."""
    return ["loss"] + [
      f"{each.name}_{metric}"
      for each in self.objectives
      for metric in each.metric_names
    ]

  def token_labels(self) -> tuple[str, Callable[[dict], Any]] | None:
    """Returns the first objective that predicts tokens; see networks."""
    for each in self.objectives:
      if each.predicts_tokens:
        return each.name, each.labels
    return None


def make(
  config: configuration.BertConfig, settings: Any, **model_options: Any
) -> PretrainingModel:
  """Returns the model that the flags describe."""
  return make_as(PretrainingModel, config, settings, **model_options)


def make_as(
  model_class: type[PretrainingModel],
  config: configuration.BertConfig,
  settings: Any,
  **model_options: Any,
) -> PretrainingModel:
  """Returns a subclass of the model with the flags' objectives."""
  chosen = names(settings)
  options = {name: points.OBJECTIVES.values(name, settings) for name in chosen}
  return model_class(config, chosen, options, **model_options)
