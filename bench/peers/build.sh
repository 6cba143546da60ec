#!/usr/bin/env bash
# Builds build/peers/llama_driver against the peer that fetch.sh has fetched.
#
#   bench/peers/build.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly peer=build/peers/llama.cpp
readonly out=build/peers/llama_driver
if [[ ! -f $peer/FETCHED ]]; then
  echo "build.sh: $peer is not there; run bench/peers/fetch.sh first" >&2
  exit 1
fi
# The libraries find each other by $ORIGIN; the driver finds them, wherever the checkout is moved to.
"${CXX:-c++}" -std=c++20 -O2 -Wall -Wextra -Werror -isystem "$peer/include" bench/peers/llama_driver.cc \
  "$peer"/lib/libllama.v*.so "$peer"/lib/libggml.v*.so "$peer/lib/libggml-base.so" \
  -Wl,-rpath,'$ORIGIN/llama.cpp/lib' -o "$out"
echo "$out"
