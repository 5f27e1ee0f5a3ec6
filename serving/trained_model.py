"""Loads the heads of a model folder with weights, for `text_models`.

This needs TensorFlow, unlike exported_network, which loads exports.
"""

from collections.abc import Callable

import tensorflow as tf

from answering import answers, export_settings, models
from checkpoints import model_files
from common import run_settings
from serving import engine_choice


class TrainedModel:
  """A folder with weights; each head loads them separately.

  Attributes:
    settings: run_settings.Settings for all heads; `head` is the trained head.
    config, tokenizer: the model's configuration and tokenizer.
    prompts: the model's prompts for vectors.
  """

  def __init__(self, settings: run_settings.Settings, threads: int = 0):
    """Reads all files except the weights, which `head` loads.

    TensorFlow computes in `threads` threads; 0 means one per core. Raises
    InputError: the model is missing or cannot be read.
    """
    self._threads = threads
    models.use_threads(threads)
    settings, self._files = export_settings.find_model(settings)
    self.config, self.prompts = self._files.config, self._files.prompts
    # A folder without weights must fail here, not at first use.
    head = self._files.head
    if "max_seq_length" in settings.given:
      self.config.check_sequence_length(settings.max_seq_length)
    # With masked_lm, this adds only the settings that all heads share.
    self.settings = export_settings.with_trained(
      settings.replace(head="masked_lm"), self._files
    ).replace(head=head)
    self.tokenizer = self._files.make_tokenizer(self.settings)

  def head(
    self, settings: run_settings.Settings, batch_size: int
  ) -> answers.Head:
    """Loads the head that `settings` names.

    Raises InputError: the folder lacks the head, or a setting is invalid.
    """
    files = self._files
    # An option of a method may name other weights.
    if settings.init_checkpoint != files.checkpoint:
      files = model_files.ModelFiles.of(settings)
    settings = export_settings.resolve(settings, files)
    model = models.make(settings, files, self.tokenizer)
    missing = model.load().missing
    network = engine_choice.network(model, self._threads)
    cut = answers.counter_of(settings)
    answer = answers.make(
      settings, self.tokenizer, network, batch_size, cut=cut
    )
    head = answers.Head(settings, model.text_inputs, answer, network, cut)
    if settings.engine != "tensorflow":  # The engine has copied the weights.
      return head
    return head._replace(model=model, missing=missing)

  def scorer(self, head: answers.Head, batch_size: int) -> Callable:
    """Returns the result of answers.make_scorer for a masked-LM head."""
    model = head.model
    names = (*model.id_inputs, "masked_lm_ids")
    network = models.network_of(model.log_probabilities, names)
    return answers.make_scorer(
      head.settings, self.tokenizer, network, batch_size
    )

  def states(self, head: answers.Head, batch: dict, attention: bool) -> dict:
    """Returns layers, pooled and attention (see text_models.Encoded)."""
    inputs = {name: tf.constant(values) for name, values in batch.items()}
    output = head.model.encode(inputs, return_attention=attention)
    states = {
      "layers": tf.stack(output.all_encoder_layers, 1),
      "pooled": output.pooled_output,
    }
    if attention:
      states["attention"] = tf.stack(output.attention_probs, 1)
    return {n: tf.cast(s, tf.float32).numpy() for n, s in states.items()}
