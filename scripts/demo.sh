#!/usr/bin/env bash
# Installs what is missing, builds soli (release) and runs the bundled demo model on a prompt.
# A second run finds all of that done and only runs the model.
#
#   scripts/demo.sh [PROMPT]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

prompt=${1:-"The captain looked at the sea and said"}
model=models/demo/soli-demo-16x2-q8_0.gguf
log=build/demo.log

scripts/setup.sh run
mkdir -p build
echo "build: release, into build/demo (log: $log)"
if ! { cmake -S . -B build/demo -G Ninja -DCMAKE_BUILD_TYPE=Release -DSOLI_TESTS=OFF \
       -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24 &&
       cmake --build build/demo -j "$(nproc)" --target soli; } >"$log" 2>&1; then
  tail -n 100 "$log"
  echo "the build failed; whole log: $log" >&2
  exit 1
fi

command=(build/demo/src/soli run "$model" -p "$prompt" -n 96 --routing)
printf '\n$'
printf ' %q' "${command[@]}"
printf '\n'
exec "${command[@]}"
