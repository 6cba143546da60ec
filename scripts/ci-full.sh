#!/usr/bin/env bash
# What is too long for every change: all tests under ASan and UBSan and under TSan, clang without sanitizers, the
# dashboard in a browser, clang-tidy over all files, random walks over model shapes from a new seed (SOLI_WALKS of
# each family), and every fuzz target for ten minutes (SOLI_FUZZ_SECONDS).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/stages.sh

scripts/setup.sh web

release() {
  build release all
  run_tests release 3600
}

walks() {
  RC_PARAMS="max_success=${SOLI_WALKS:-400}" build/release/tests/test_reference --gtest_filter='*Walk*'
}

# A browser before the dashboard of a live server, and one day of simulated data.
web() {
  node tests/web/dashboard_test.mjs build/release/src/soli
}

clang() {
  cmake --preset release -B build/clang -DCMAKE_CXX_COMPILER=clang++
  cmake --build build/clang -j "$jobs"
  run_tests clang 3600 --label-exclude lint
}

asan() {
  build asan all
  run_tests asan 3600 --label-exclude lint
}

tsan() {
  build tsan all
  run_tests tsan 3600 --label-exclude lint
}

stage release release
stage walks walks
stage web web
stage clang clang
stage asan-ubsan asan
stage tsan tsan
stage tidy scripts/tidy.sh all
stage fuzz fuzz "${SOLI_FUZZ_SECONDS:-600}"
summary
