// Encodes every text of corpus.json with the reference implementation.
//
//   node expected.mjs tokenizers.mjs corpus.json FOLDER    FOLDER/tokenizer.json -> FOLDER/expected.json
import fs from "node:fs";
import path from "node:path";
import {pathToFileURL} from "node:url";

const [library, corpus, folder] = process.argv.slice(2);
const {Tokenizer} = await import(pathToFileURL(path.resolve(library)));
const readJson = (file) => JSON.parse(fs.readFileSync(file, "utf8"));

const file = readJson(`${folder}/tokenizer.json`);
const tokenizer = new Tokenizer(file, readJson(`${folder}/tokenizer_config.json`));
const added = file.added_tokens.map((token) => token.content);

/// The text of one entry; see corpus_text() in hugging_face_test.cc.
function textOf(entry) {
  if ("hex" in entry) return new TextDecoder("utf-8", {ignoreBOM: true}).decode(Buffer.from(entry.hex, "hex"));
  if ("unit" in entry) return entry.unit.repeat(Math.ceil(entry.bytes / Buffer.byteLength(entry.unit)));
  if ("special" in entry) return entry.special.replace(/%([0-9])/g, (_, n) => added[n % added.length]);
  return entry.text;
}

const ids = readJson(corpus).map((entry) => tokenizer.encode(textOf(entry), {add_special_tokens: false}).ids);
fs.writeFileSync(`${folder}/expected.json`, JSON.stringify(ids));
