"""The wheel: the project's files as one package, bert_tf2.

In a clone a script says `import modeling` and `from squad import answers`.
In the wheel the same files are one package, and each such line is rewritten on
the way in (`from bert_tf2 import modeling`, `from bert_tf2.squad import ...`):
names as common as `tokenization` never lie loose in anyone's site-packages.
pyproject.toml has everything that needs no code.
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
MODULE_IMPORT = re.compile(rf"^( *)import ({'|'.join(MODULES)})$", re.M)
FOLDER_IMPORT = re.compile(rf"^( *)from ({'|'.join(FOLDERS)}) import ", re.M)


class BuildPackage(build_py):
  """Copies the files into the package and rewrites their imports."""

  def finalize_options(self):
    super().finalize_options()
    # Copy every time: a rewritten copy is newer than its source, so an edit
    # within the same second would look "up to date" and never be shipped.
    self.force = True

  def find_package_modules(self, package, package_dir):
    found = super().find_package_modules(package, package_dir)
    return [module for module in found if module[:2] != (PACKAGE, "setup")]

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
  license="Apache-2.0",
  packages=[PACKAGE, *(f"{PACKAGE}.{name}" for name in FOLDERS)],
  package_dir={PACKAGE: "."},
  package_data={
    f"{PACKAGE}.features": ["*.html"], f"{PACKAGE}.serving": ["*.html"],
    f"{PACKAGE}.reproduction": ["*.csv"],
  },
  cmdclass={"build_py": BuildPackage},
)
