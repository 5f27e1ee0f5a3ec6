#!/usr/bin/env bash
# Checks that pip finds wheels of all dependencies for other systems. It installs
# nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# pip evaluates markers for the running system, so a condition of our own leaves
# out tensorflow-text, which has no wheel for Windows.
requirements() {
  python3 - "$1" <<'PY'
import re, sys
text = open("pyproject.toml", encoding="utf-8").read()
block = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.M | re.S)[1]
for name in re.findall(r'^  "(.*?)",$', block, re.M):
  if not (sys.argv[1].startswith("win") and "tensorflow-text" in name):
    print(name.partition(";")[0])
PY
}

for target in "3.10 manylinux_2_28_x86_64" "3.13 manylinux_2_28_x86_64" \
    "3.13 manylinux_2_28_aarch64" "3.13 macosx_14_0_arm64" "3.13 win_amd64"; do
  read -r python platform <<<"$target"
  mapfile -t names < <(requirements "$platform")
  platforms=(--platform "$platform")
  case $platform in
    manylinux*) for glibc in 17 27; do
        platforms+=(--platform "manylinux_2_${glibc}_${platform#manylinux_2_28_}")
      done
      platforms+=(--platform "manylinux2014_${platform#manylinux_2_28_}") ;;
    macosx*) platforms+=(--platform macosx_12_0_arm64 --platform macosx_11_0_arm64) ;;
  esac
  python3 -m pip install --quiet --dry-run --ignore-installed \
    --only-binary=:all: --target=unused --python-version "$python" \
    "${platforms[@]}" "${names[@]}"
  echo "Python $python, $platform: found all wheels"
done
