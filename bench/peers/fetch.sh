#!/usr/bin/env bash
# Fetches the peer that soli is measured against: llama.cpp v0.5.0 as npm's node-llama-cpp 3.22.1 carries it.
#
#   bench/peers/fetch.sh
#
# build/peers/llama.cpp/lib       libllama, libggml and one CPU backend per kind of processor, as published
# build/peers/llama.cpp/include   the headers of the same release, out of the git bundle of the package
#
# Needs npm, git and openssl; loads 45 MB. It does nothing where the peer is there already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly version=3.22.1
readonly release=v0.5.0
readonly out=build/peers/llama.cpp
# sha512 of the two packages, as the registry states them (npm view NAME@VERSION dist.integrity).
readonly libraries_sha512=5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg==
readonly source_sha512=bltIipuWmc123H7tMIgDGKSsSrhmhlQYeVUC48XTjVW7XGJJiJJyCdlTMzQ/LiWoPkGDpcL4FviDpgw7qfTiDw==
readonly stamp="node-llama-cpp $version, llama.cpp $release"

fail() {
  echo "fetch.sh: $*" >&2
  exit 1
}

if [[ -f $out/FETCHED && $(<"$out/FETCHED") == "$stamp" ]]; then
  echo "$out: $stamp is there"
  exit 0
fi
[[ $(uname -sm) == "Linux x86_64" ]] || fail "the package holds libraries for Linux on x86_64, not for $(uname -sm)"
for tool in npm git openssl tar; do
  command -v "$tool" >/dev/null || fail "$tool is needed"
done

mkdir -p build/peers
work=$(mktemp -d -p build/peers fetching.XXXXXX)
trap 'rm -rf "$work"' EXIT

# Loads the package $1 into $work/$2 and unpacks the paths $4... of it, if its sha512 is $3. Nothing of it is
# installed or run, so that none of its 677 MB of optional GPU packages follow.
load() {
  local name=$1 folder=$work/$2 sha512=$3 found
  shift 3
  mkdir "$folder"
  npm pack --silent --pack-destination "$folder" "$name@$version" >/dev/null ||
    fail "npm pack $name@$version failed (is the registry reachable?)"
  found=$(openssl dgst -sha512 -binary "$folder"/*.tgz | openssl base64 -A)
  [[ $found == "$sha512" ]] || fail "$name@$version has the sha512 $found, expected $sha512"
  tar -xzf "$folder"/*.tgz -C "$folder" "$@" || fail "$name@$version does not hold $*"
}

load @node-llama-cpp/linux-x64 libraries "$libraries_sha512" package/bins/linux-x64 package/LICENSE
load node-llama-cpp source "$source_sha512" package/llama/gitRelease.bundle package/llama/llama.cpp.info.json
grep -q "\"$release\"" "$work/source/package/llama/llama.cpp.info.json" ||
  fail "node-llama-cpp@$version does not carry llama.cpp $release"

git init -q --bare "$work/git"
git -C "$work/git" fetch -q "$PWD/$work/source/package/llama/gitRelease.bundle" HEAD ||
  fail "the bundle of node-llama-cpp@$version cannot be read"
mkdir -p "$work/peer/include" "$work/peer/lib"
git -C "$work/git" archive FETCH_HEAD include | tar -x --strip-components=1 -C "$work/peer/include"
git -C "$work/git" archive FETCH_HEAD ggml/include | tar -x --strip-components=2 -C "$work/peer/include"
git -C "$work/git" show FETCH_HEAD:LICENSE >"$work/peer/LICENSE"
mv "$work"/libraries/package/bins/linux-x64/*.so "$work/peer/lib"
[[ -f $work/peer/lib/libllama.$release.so && -f $work/peer/include/llama.h ]] ||
  fail "libllama.$release.so or llama.h is missing in what was loaded"
echo "$stamp" >"$work/peer/FETCHED"

rm -rf "$out"
mv "$work/peer" "$out"
echo "$out: $stamp"
