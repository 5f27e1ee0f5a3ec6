"""Losses for training; each file has one, and --losses names the files.

A file defines:

  KINDS     the kinds of task (data.KINDS) that it applies to
  COMPARES  whether an example's loss depends on the other examples of its batch
  def make(inner, task_kind, **options): returns a function of logits and
            label_ids that returns float32 [B]; model.Network.example_losses
            says what these are. `inner` is the loss before it in --losses, at
            first the task's own.

A file may also define OPTIONS, see common/extension_points.py, and

  HEAD      the head (flag_values.SERVING_HEADS) of the trained model
  def network(base): returns a subclass of the task's model.Network, whose
            logits the loss gets

An evaluation always reports the task's own loss.
"""
