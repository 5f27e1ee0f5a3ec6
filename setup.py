"""Builds the wheel: the project's files as one package, bert_tf2.

In a clone, scripts contain `import modeling` and `from squad import answers`.
In the wheel, the same files are one package, and the build rewrites these lines
(`from bert_tf2 import modeling`, `from bert_tf2.squad import ...`). This keeps
common names such as `tokenization` out of site-packages. An editable
installation has only bert_tf2.py, which rewrites the lines at import. All
metadata that needs no code is in pyproject.toml.
"""

import pathlib
import shutil
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

# An isolated build does not have this folder on sys.path.
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import bert_tf2  # noqa: E402

PACKAGE = bert_tf2.__name__


class BuildPackage(build_py):
  """Copies the files into the package and rewrites their imports."""

  def finalize_options(self):
    """Makes each build copy all files."""
    super().finalize_options()
    # Copy every time: a rewritten copy is newer than its source, so an edit
    # within the same second would look "up to date" and never be shipped.
    self.force = True

  def find_package_modules(self, package, package_dir):
    """Returns a package's modules; for the root, bert_tf2 and its MODULES."""
    modules = super().find_package_modules(package, package_dir)
    if package != PACKAGE:
      return modules
    # Without __init__.py, Python would merge the package with any folder of the
    # same name in the working directory, such as a clone called bert_tf2.
    names = {PACKAGE: "__init__", **{n: n for n in bert_tf2.MODULES}}
    return [
      (package, names[name], file) for _, name, file in modules if name in names
    ]

  def run(self):
    """Removes an old copy from the build folder, and copies the package."""
    if not self.editable_mode:
      # The wheel must not contain the old file of a renamed module.
      shutil.rmtree(pathlib.Path(self.build_lib, PACKAGE), ignore_errors=True)
    super().run()

  def build_module(self, module, module_file, package):
    """Copies a module and rewrites its imports."""
    target, copied = super().build_module(module, module_file, package)
    path = pathlib.Path(target)
    source = bert_tf2.rewritten(path.read_text(encoding="utf-8"))
    path.write_text(source, encoding="utf-8")
    return target, copied


FILES = {
  "packages": [
    PACKAGE,
    *(f"{PACKAGE}.{n}" for n in bert_tf2.FOLDERS + bert_tf2.SUBFOLDERS),
  ],
  "package_dir": {PACKAGE: "."},
  "package_data": {
    f"{PACKAGE}.features": ["*.html"],
    f"{PACKAGE}.web.forms": ["*.html"],
    f"{PACKAGE}.reproduction": ["*.csv"],
    f"{PACKAGE}.running.reports": ["*.html", "*.md"],
  },
}
if "editable_wheel" in sys.argv:
  FILES = {"py_modules": [PACKAGE]}
setup(license="Apache-2.0", cmdclass={"build_py": BuildPackage}, **FILES)
