# Sourced by test.sh and ci-full.sh: runs named stages, keeps a log of each, and sums up at the end.

log_folder=build/logs
jobs=$(nproc)
failed_stages=()
tests_total=0
tests_failed=0

# stage NAME COMMAND...: runs the command with its output in build/logs/NAME.log. A failing stage prints its log
# and does not stop the others, so that one run tells everything that is wrong.
stage() {
  local name=$1 log="$log_folder/$1.log" begin=$SECONDS status=0 failed_before=$tests_failed
  shift
  mkdir -p "$log_folder"
  echo "==> $name"
  # The subshell gets its own `set -e`, which bash would ignore on the left of `||`.
  set +e
  (set -e; "$@") >"$log" 2>&1 </dev/null
  status=$?
  set -e
  count_tests "$log"
  if ((status == 0)); then
    grep -E '^[0-9]+% tests passed' "$log" | sed 's/^/    /' || true
    echo "    passed in $((SECONDS - begin)) s"
  else
    failed_stages+=("$name")
    # A stage that failed before or after its tests (a build, for one) counts as a failed test itself.
    if ((tests_failed == failed_before)); then
      tests_failed=$((tests_failed + 1))
      tests_total=$((tests_total + 1))
    fi
    echo "---- the last 300 lines of $log"
    tail -n 300 "$log"
    echo "    FAILED (exit status $status) after $((SECONDS - begin)) s; whole log: $log"
  fi
}

# Adds what ctest and the fuzz stage reported in a log to the totals.
count_tests() {
  local total failed
  while read -r failed total; do
    tests_failed=$((tests_failed + failed))
    tests_total=$((tests_total + total))
  done < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$1")
}

# summary: the closing line; the exit status is that of all stages together.
summary() {
  local percent=0
  ((tests_total == 0)) || percent=$(((tests_total - tests_failed) * 100 / tests_total))
  echo
  echo "$percent% tests passed, $tests_failed tests failed out of $tests_total"
  echo "Total time: $SECONDS s"
  if ((${#failed_stages[@]} > 0)); then
    echo "FAILED stages: ${failed_stages[*]}"
    return 1
  fi
}

# Further options of CMake, which a stage may set for itself.
cmake_options=()

# build PRESET TARGET...: configures where needed, then builds. Some 24 files are compiled as one, which reads
# their headers once: a quarter of the time for a whole build. SOLI_UNITY=OFF compiles each by itself.
build() {
  local preset=$1
  shift
  cmake --preset "$preset" -DCMAKE_UNITY_BUILD="${SOLI_UNITY:-ON}" -DCMAKE_UNITY_BUILD_BATCH_SIZE=24 \
    "${cmake_options[@]}"
  cmake --build "build/$preset" -j "$jobs" --target "$@"
}

# run_tests PRESET SECONDS CTEST_OPTION...: no single test may take longer than SECONDS. One more at a time than there
# are cores, since some of them wait.
run_tests() {
  local preset=$1 timeout_s=$2
  shift 2
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$((jobs + 1))" --timeout "$timeout_s" "$@"
}

# fuzz SECONDS: every fuzz target for that long, from a copy of its corpus, twice as many at once as there are cores.
# Inputs that fail are left in build/fuzz/.
fuzz() {
  local seconds=$1 work total=0 failed=0 binary name
  work=$(mktemp -d)
  trap "rm -rf '$work'" EXIT
  mkdir -p build/fuzz
  local names=() pids=()
  for binary in build/asan/tests/fuzz/fuzz_*; do
    [[ -f $binary && -x $binary ]] || continue
    names+=("$(basename "$binary")")
  done
  local next=0 first i
  while ((next < ${#names[@]})); do
    first=$next
    pids=()
    for ((i = 0; i < 2 * jobs && next < ${#names[@]}; i++, next++)); do
      name=${names[next]}
      mkdir -p "$work/$name"
      cp -r "tests/fuzz/corpus/${name#fuzz_}/." "$work/$name/" 2>/dev/null || echo "$name starts without a corpus"
      "build/asan/tests/fuzz/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$name-" "$work/$name" >"build/fuzz/$name.log" 2>&1 &
      pids+=($!)
    done
    for ((i = 0; i < ${#pids[@]}; i++)); do
      name=${names[first + i]}
      total=$((total + 1))
      if wait "${pids[i]}"; then
        echo "$name: $(grep -E 'number_of_executed_units' "build/fuzz/$name.log" || true)"
      else
        failed=$((failed + 1))
        echo "$name FAILED:"
        tail -n 100 "build/fuzz/$name.log"
      fi
    done
  done
  ((total > 0)) || { echo "no fuzz target was built"; return 1; }
  echo "$(((total - failed) * 100 / total))% tests passed, $failed tests failed out of $total"
  ((failed == 0))
}
