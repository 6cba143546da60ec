// Writes the tokenizer.json of Mistral v1 (Mistral-7B-v0.1, Mixtral-8x7B) from its list of pieces, in the way the
// model's own file was made from the SentencePiece model: a merge for every two pieces that make a piece, in the
// order of the pieces; those of blanks, which were added by hand, come last.
//
//   node mistral.mjs FOLDER    FOLDER/data/bpe/v1/vocab.bin -> FOLDER/tokenizer.json, tokenizer_config.json
import fs from "node:fs";

const folder = process.argv[2];
const encoded = fs.readFileSync(`${folder}/data/bpe/v1/vocab.bin`, "utf8");
const pieces = Buffer.from(encoded, "base64").toString("utf8").split("\n");
const ids = new Map(pieces.map((piece, id) => [piece, id]));
const firstPiece = 3 + 256;  // after <unk>, <s>, </s> and the bytes

const isBlank = (piece) => /^\u2581+$/.test(piece);
const merges = [];
for (const blank of [false, true]) {
  for (const piece of pieces.slice(firstPiece)) {
    if (isBlank(piece) !== blank) continue;
    const characters = [...piece];
    const pairs = [];
    for (let i = 1; i < characters.length; ++i) {
      const left = characters.slice(0, i).join("");
      const right = characters.slice(i).join("");
      if (ids.has(left) && ids.has(right)) pairs.push([left, right]);
    }
    pairs.sort((a, b) => ids.get(a[0]) - ids.get(b[0]) || ids.get(a[1]) - ids.get(b[1]));
    for (const [left, right] of pairs) merges.push(`${left} ${right}`);
  }
}

const special = (id) => ({
  id, content: pieces[id], single_word: false, lstrip: false, rstrip: false, normalized: false, special: true,
});
fs.writeFileSync(`${folder}/tokenizer.json`, JSON.stringify({
  version: "1.0", truncation: null, padding: null,
  added_tokens: [0, 1, 2].map(special),
  normalizer: {type: "Sequence", normalizers: [
    {type: "Prepend", prepend: "\u2581"}, {type: "Replace", pattern: {String: " "}, content: "\u2581"}]},
  pre_tokenizer: null,
  post_processor: {
    type: "TemplateProcessing",
    single: [{SpecialToken: {id: "<s>", type_id: 0}}, {Sequence: {id: "A", type_id: 0}}],
    pair: [], special_tokens: {"<s>": {id: "<s>", ids: [1], tokens: ["<s>"]}}},
  decoder: {type: "Sequence", decoders: [
    {type: "Replace", pattern: {String: "\u2581"}, content: " "}, {type: "ByteFallback"}, {type: "Fuse"},
    {type: "Strip", content: " ", start: 1, stop: 0}]},
  model: {type: "BPE", dropout: null, unk_token: "<unk>", continuing_subword_prefix: null,
          end_of_word_suffix: null, fuse_unk: true, byte_fallback: true,
          vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])), merges},
}));
fs.writeFileSync(`${folder}/tokenizer_config.json`,
                 JSON.stringify({add_bos_token: true, add_eos_token: false, bos_token: "<s>", eos_token: "</s>"}));
