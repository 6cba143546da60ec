#!/usr/bin/env bash
# Installs the Debian packages that soli is built and tested with; does nothing when all are present.
#
#   scripts/setup.sh run     what the program needs (scripts/demo.sh)
#   scripts/setup.sh test    that, and what the tests need (scripts/test.sh)
#   scripts/setup.sh web     that, and a browser for the dashboard (scripts/ci-full.sh)
#
# Made for and tested on Debian 12. On Ubuntu 24.04 the names below are the same except for the versions of clang's
# run-time and of Boost; that is untested.
set -euo pipefail

run_packages=(
  g++ cmake ninja-build pkg-config  # the build
  libexpected-dev                   # tl::expected: errors as values
  libfmt-dev libspdlog-dev          # formatting, logging
  libcli11-dev libedit-dev          # command line, line editing
  nlohmann-json3-dev                # JSON
  libpcre2-dev libutf8proc-dev      # patterns of pre-tokenizers, Unicode
  libhwloc-dev                      # topology of the machine
  liburing-dev                      # many reads at a time
  libxxhash-dev                     # checksums of packed experts
  libsqlite3-dev                    # traces of the router
  libpng-dev                        # heat maps of reports
  libtomlplusplus-dev               # configuration files
  prometheus-cpp-dev                # metrics
)
test_packages=(
  libgtest-dev libgmock-dev  # unit tests
  librapidcheck-dev          # random walks over model shapes
  python3 python3-numpy      # lint tests, independent recounts of what soli prints
  python3-jinja2             # what chat templates are compared with
  xz-utils                   # unpacks the golden vocabularies
  prometheus                 # promtool, which reads the metrics
  curl                       # a client
  clang clang-format clang-tidy
)

web_packages=(nodejs npm chromium)

is_ubuntu_24() {
  (. /etc/os-release && [[ "${ID:-} ${VERSION_ID:-}" == "ubuntu 24.04" ]])
}

# Asio and Beast, headers only. Debian's libboost-dev is too old.
boost_package() {
  if is_ubuntu_24; then echo libboost-dev; else echo libboost1.81-dev; fi
}

# The sanitizer and libFuzzer run-times of clang are a package of their own, named after clang's version.
clang_runtime_package() {
  if is_ubuntu_24; then echo libclang-rt-18-dev; else echo libclang-rt-14-dev; fi
}

is_installed() {
  [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

case "${1:-}" in
  run) packages=("${run_packages[@]}" "$(boost_package)") ;;
  test) packages=("${run_packages[@]}" "$(boost_package)" "${test_packages[@]}" "$(clang_runtime_package)") ;;
  web)
    packages=("${run_packages[@]}" "$(boost_package)" "${test_packages[@]}" "$(clang_runtime_package)"
              "${web_packages[@]}")
    ;;
  *) echo "usage: scripts/setup.sh run|test|web" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup.sh knows only Debian and Ubuntu (apt-get); elsewhere install the equivalents of: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "set-up: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "missing packages: ${missing[*]}; run 'apt-get install ${missing[*]}' as root (sudo is not here)" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "set-up: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q </dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
