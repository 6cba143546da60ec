#!/usr/bin/env bash
# Installs what is missing, then runs every test: some 25 minutes on two cores; less is wanted. Called by .ci/run.
# SOLI_FUZZ_SECONDS (default 10) says how long each fuzz target runs. Logs are left in build/logs/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/stages.sh

scripts/setup.sh test

# Units, goldens and lint; the tests themselves walk through the ISA paths of the machine.
release() {
  build release all
  run_tests release 600
}

# Long sweeps whose code others walk through as well; the stage before and ci-full.sh have them.
long_under_asan=HostileText.AMegabyteOfOneCharacterOnASmallStack:Pretokenizer.LongRunsAreLinear
long_under_asan+=:Synth.WeightsOfEveryTypeKeepActivationsInSize

# Kernels take long to compile with checks in them: one set of vector instructions is looked at by the gate, all by
# ci-full.sh.
asan() {
  cmake_options=(-DSOLI_VECTOR_ISAS=avx2)
  build asan sanitized_tests
  GTEST_FILTER="-$long_under_asan" run_tests asan 600 --label-regex sanitized
}

tsan() {
  build tsan threaded_tests
  run_tests tsan 600 --label-regex threaded
}

stage release release
stage asan-ubsan asan
stage tsan tsan
stage fuzz fuzz "${SOLI_FUZZ_SECONDS:-10}"
summary
