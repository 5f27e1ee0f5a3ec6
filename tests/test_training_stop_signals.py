"""Signals that are noted while a block runs."""

import os
import signal

import pytest

from training import stop_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted_and_named(number):
  before = signal.getsignal(number)
  with stop_signals.catch_signals() as stop:
    assert not stop.requested and stop.by is None
    os.kill(os.getpid(), number)
    assert stop.requested and stop.by == signal.Signals(number).name
  assert signal.getsignal(number) == before


def test_a_second_ctrl_c_interrupts():
  before = signal.getsignal(signal.SIGINT)
  with pytest.raises(KeyboardInterrupt), stop_signals.catch_signals():
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
  assert signal.getsignal(signal.SIGINT) == before
