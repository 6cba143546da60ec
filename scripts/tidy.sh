#!/usr/bin/env bash
# clang-tidy (.clang-tidy) over the sources.
#
#   scripts/tidy.sh            the files that differ from the branch main
#   scripts/tidy.sh all        all of src/ and tests/
#   scripts/tidy.sh FILE...    these
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The commands come from a clang configuration, so that no option of GCC is unknown to clang-tidy.
cmake --preset debug -B build/tidy -DCMAKE_CXX_COMPILER=clang++ >/dev/null

case "${1:-changed}" in
  changed) mapfile -t files < <(git diff --name-only --diff-filter=d main -- 'src/*.cc' 'tests/*.cc') ;;
  all) mapfile -t files < <(git ls-files 'src/*.cc' 'tests/*.cc' ':!tests/fuzz/') ;;
  *) files=("$@") ;;
esac
if ((${#files[@]} == 0)); then
  echo "no source file differs from main"
  exit 0
fi
# What it counts and does not show (system headers) is left out.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/tidy --warnings-as-errors='*' \
    2> >(grep -v 'warnings\? generated' >&2 || true)
echo "clang-tidy: ${#files[@]} files without a warning"
