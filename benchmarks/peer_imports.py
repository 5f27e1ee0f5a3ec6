"""What has to be done before other programs are imported in a benchmark."""

import sys


def hide_triton():
  """Lets torch and transformers be imported together with TensorFlow.

  PyTorch's wheels for GPUs bring triton, whose copy of LLVM and TensorFlow's
  end a process that loads both. So triton is hidden from it: neither module
  needs it to run a model as it is. Without TensorFlow, nothing is hidden.
  """
  if "tensorflow" in sys.modules:
    sys.modules.setdefault("triton", None)
