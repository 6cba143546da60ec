#!/usr/bin/env bash
# Many clients of every kind against `soli serve` with the demo model, half of the time with scarce keys and values,
# half with scarce experts (tests/soak/soak.py says what is checked). Builds the program first, unless SOLI names one.
#
#   scripts/soak.sh [SECONDS=600] [OPTION OF soak.py...]
#   SOLI=build/tsan/src/soli scripts/soak.sh 60 --seed 7
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=600
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  seconds=$1
  shift
fi
if [[ -z ${SOLI:-} ]]; then
  scripts/setup.sh run
  log=build/logs/soak-build.log
  mkdir -p build/logs
  if ! { cmake --preset release && cmake --build build/release -j "$(nproc)" --target soli; } >"$log" 2>&1; then
    tail -n 100 "$log"
    echo "the build failed; whole log: $log" >&2
    exit 1
  fi
  SOLI=build/release/src/soli
fi
exec python3 -B tests/soak/soak.py "$SOLI" --seconds "$seconds" "$@"
