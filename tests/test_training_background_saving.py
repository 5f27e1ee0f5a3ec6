"""Tests that checkpoints are written during the training, with its values."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from common import errors, memory
from training import background_saving

SIZE = 1000


def step_of(kind, variable):
  """Returns a function that changes a variable in the way of `kind`."""

  def assign():
    variable.assign_add(tf.ones([SIZE, 2]))

  def sparse():
    variable.scatter_sub(tf.IndexedSlices(tf.ones([1, 2]), [3]))

  def adam():
    moments = [tf.Variable(tf.zeros([SIZE, 2])) for _ in range(2)]
    tf.raw_ops.ResourceApplyAdam(
      var=variable.handle,
      m=moments[0].handle,
      v=moments[1].handle,
      beta1_power=0.9,
      beta2_power=0.9,
      lr=1.0,
      beta1=0.9,
      beta2=0.9,
      epsilon=1e-6,
      grad=tf.ones([SIZE, 2]),
    )

  return {
    "assign": assign,
    "scatter": sparse,
    "adam": adam,
    "graph": tf.function(assign),
    "xla": tf.function(assign, jit_compile=True),
  }[kind]


@pytest.mark.parametrize("kind", ["assign", "scatter", "adam", "graph", "xla"])
def test_updates_do_not_change_a_copy(kind):
  variable = tf.Variable(np.arange(2.0 * SIZE, dtype="f").reshape(SIZE, 2))
  change = step_of(kind, variable)
  change()
  before = variable.numpy().copy()
  copies = background_saving.host_copies({"x": variable})
  for _ in range(3):
    change()
  assert not np.array_equal(variable.numpy(), before)
  np.testing.assert_array_equal(copies["x"].numpy(), before)


def test_one_call_at_a_time_in_order():
  variable = tf.Variable([0.0])
  written, passed, may_write = [], [], threading.Event()

  def write(tensors):
    assert may_write.wait(60)
    written.append(float(tensors["x"][0]))
    passed.append(tensors)

  with background_saving.BackgroundSaver() as saver:
    saver.save(write, {"x": variable})
    variable.assign([1.0])
    saver.check()
    assert not written
    may_write.set()
    saver.save(write, {"x": variable})
    assert written[0] == 0.0
  assert written == [0.0, 1.0]
  assert passed == [{}, {}]  # The memory of the copies is free.
  assert "checkpoint" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("how", ["check", "wait", "save", "end"])
def test_an_error_reaches_the_training_once(how):
  def write(tensors):
    raise errors.InputError("the disk is full")

  values = {"x": tf.Variable([0.0])}
  saver = background_saving.BackgroundSaver()
  saver.save(write, values)
  saver._thread.join()
  with pytest.raises(errors.InputError, match="the disk is full"), saver:
    if how == "save":
      saver.save(lambda _: None, values)
    elif how != "end":
      getattr(saver, how)()
  saver.wait()


# A copy of eight bytes needs a quarter more than it has.
@pytest.mark.parametrize(
  "free, waits", [(None, False), (10**9, False), (11, False), (10, 1), (9, 1)]
)
def test_a_copy_needs_free_memory(monkeypatch, caplog, free, waits):
  monkeypatch.setattr(memory, "available_bytes", lambda: free)
  threads = []
  with background_saving.BackgroundSaver() as saver:
    for _ in range(2):
      saver.save(
        lambda _: threads.append(threading.current_thread()),
        {"x": tf.Variable([0.0, 1.0])},
      )
  is_main = [thread is threading.main_thread() for thread in threads]
  assert is_main == [bool(waits)] * 2
  assert caplog.text.count("training waits for each checkpoint") == waits
