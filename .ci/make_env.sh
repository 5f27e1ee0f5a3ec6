#!/usr/bin/env bash
# Makes .venv, the environment of this folder, or brings it up to date.
#
#   bash .ci/make_env.sh [EXTRA ...]                 extras, e.g. test
#   PYTHON=python3.12 bash .ci/make_env.sh [EXTRA ...]     another interpreter
#
# Quick when nothing is missing: .venv/has-<extra> holds the checksum of the
# pyproject.toml that it was installed for. .venv/unfinished exists while pip
# works, so an environment that was interrupted half-way is made afresh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

supported='import sys, venv, ensurepip
sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))'

find_python() {  # Prints the first interpreter that will do.
  local name names=(python3 python3.13 python3.12 python3.11 python3.10)
  [ -z "${PYTHON:-}" ] || names=("$PYTHON")
  for name in "${names[@]}"; do
    if "$name" -c "$supported" 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  {
    echo "make env: error: expected Python 3.10 to 3.13 with its venv" \
      "module, and ${PYTHON:-python3} is not one that runs."
    echo "Install one and name it: PYTHON=/path/to/python3.11 make env"
  } >&2
  return 1
}

version() { "$1" -c 'import sys; print(sys.version)' 2>/dev/null || true; }

usable() {  # Whether .venv is whole, still runs, and is of the version asked.
  [ ! -e .venv/unfinished ] && [ -e .venv/has-core ] || return 1
  [ -n "$(version .venv/bin/python)" ] || return 1
  [ -z "${PYTHON:-}" ] || [ "$(version .venv/bin/python)" = "$(version "$PYTHON")" ]
}

up_to_date() {  # Whether .venv has the core and every extra asked for.
  local name
  for name in core "$@"; do
    [ "$(cat ".venv/has-$name" 2>/dev/null)" = "$checksum" ] || return 1
  done
}

checksum=$(cksum <pyproject.toml)
if ! usable; then
  python=$(find_python)
  echo "Making .venv with $("$python" --version): some minutes, 2 to 4 GB."
  rm -f .venv/has-core  # First, should the clearing be interrupted.
  "$python" -m venv --clear .venv
  # The pip that comes with Python 3.10 had not found versions that go with
  # tf-models-official after nine minutes; a new one needs less than one.
  .venv/bin/python -m pip install --quiet --upgrade pip
elif up_to_date "$@"; then
  exit 0
fi

# pip reads requirements only from a build of the project; the copy of the
# project that comes with them is taken out again, for the scripts are run from
# this folder. --no-compile: Python compiles what is imported, when it is; pip
# would compile all of it first, which doubles the work of the installation.
# But where Python may not store what it compiles, each start of a script would
# compile TensorFlow again, 10 to 20 s: there pip does it once.
extras=$(IFS=,; echo "$*")
echo "Installing what pyproject.toml names${extras:+, extras $extras}."
touch .venv/unfinished
.venv/bin/python -m pip install $([ -t 1 ] || echo --quiet) --use-pep517 \
  $([ -n "${PYTHONDONTWRITEBYTECODE:-}" ] || echo --no-compile) \
  --disable-pip-version-check ".${extras:+[$extras]}"
.venv/bin/python -m pip uninstall --quiet --yes bert-tf2
rm -rf build bert_tf2.egg-info
for name in core "$@"; do echo "$checksum" >".venv/has-$name"; done
rm .venv/unfinished
