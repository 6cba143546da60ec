// The parts of the page that need no browser, loaded by vite as the build loads them.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { check, equal, until, WEB } from './support.mjs';

function refused(run, part) {
  try {
    run();
  } catch (error) {
    check(error.message.includes(part), `the error says “${error.message}”, and not “${part}”`);
    return;
  }
  throw new Error(`nothing is wrong where “${part}” should be`);
}

function policies({ readPolicy }) {
  equal(readPolicy(''), {}, 'nothing');
  equal(readPolicy('{"mask": [3], "k_min": 2}'), { mask: [3], k_min: 2 }, 'JSON');
  const text = `
# as in docs/steering.md
experts_per_token = 4
cumulative_probability = 0.9   # a share
mask = [3, "17-19"]
bias = { 5 = 0.5, "6" = -1 }
noise_seed = 1_000
overflow = 'drop'

[[layers]]
layers = "0-3"
mask = []
[[ layers ]] # the next
layers = 5
input_clamp = 1e2`;
  equal(readPolicy(text), {
    experts_per_token: 4, cumulative_probability: 0.9, mask: [3, '17-19'], bias: { 5: 0.5, 6: -1 }, noise_seed: 1000,
    overflow: 'drop', layers: [{ layers: '0-3', mask: [] }, { layers: 5, input_clamp: 100 }],
  }, 'TOML');
  equal(Object.keys(readPolicy('__proto__ = 1')), ['__proto__'], 'a key is a key');
  refused(() => readPolicy('a = 1\nb'), 'line 2: “=” is missing behind b');
  refused(() => readPolicy('a = 1\na = 2'), 'line 2: a stands there twice');
  refused(() => readPolicy('a = soft'), 'line 1: “soft” is no number');
  refused(() => readPolicy('a = [1 2]'), 'line 1: a list wants');
  refused(() => readPolicy('a = {b = 1'), 'line 1: a table wants');
  refused(() => readPolicy('a = 1 2'), 'line 1: “2” stands behind the value');
  refused(() => readPolicy('a ='), 'line 1: a value is missing');
  refused(() => readPolicy('[router]'), 'line 1: the only table is [[layers]]');
  refused(() => readPolicy(`a = ${'['.repeat(100)}`), 'line 1: lists are nested too deep');
  refused(() => readPolicy('{"a": }'), '');
}

function differences({ firstDifference, routingAgreement, meanExperts }) {
  equal([firstDifference('abc', 'abc'), firstDifference('abc', 'abd'), firstDifference('ab', 'abc')], [null, 2, 2], 'texts');
  equal(firstDifference('a\u{1f600}', 'a\u{1f601}'), 1, 'a difference within a character');
  const routed = (...tokens) => ({ routing: tokens.map(([token, ...experts]) => ({ token, experts })) });
  const a = routed([7, [1, 2], [3]], [8, [1, 2], [3]], [9, [1], [1]]);
  const b = routed([7, [2, 3], [3]], [8, [1, 2], [4]], [10, [1], [1]]);
  equal(routingAgreement(a, b), { jaccard: (1 / 3 + 1 + 1 + 0) / 4, n_tokens: 2 }, 'agreement until the tokens part');
  equal([routingAgreement(routed(), b), meanExperts(a), meanExperts(routed())], [null, 8 / 6, null], 'means');
}

function rings({ noWindows, merge, askFrom }) {
  const series = (begin, complete, tokens) => ({ tier: '1s', begin, complete, generated_tokens: tokens });
  let ring = noWindows('1s', 1000);
  equal(askFrom(ring), 0, 'the first question');
  ring = merge(ring, series([1000, 2000], [true, false], [5, 1]), 3);
  equal(askFrom(ring), 2000, 'an open window is asked for again');
  ring = merge(ring, series([2000, 3000, 4000], [true, true, true], [6, 7, 8]), 3);
  equal([ring.begin, ring.columns.generated_tokens, ring.columns.entropy], [[2000, 3000, 4000], [6, 7, 8], [null, null, null]],
    'the ring keeps the last three');
  equal(askFrom(ring), 5000, 'all are complete');
  check(merge(ring, { ...series([9000], [true], [1]), tier: '10s' }, 3) === ring, 'another tier changes nothing');
}

function tokens({ TokenStore, visible }) {
  const store = new TokenStore('r', [0, 2]);
  const token = (position, experts) =>
    ({ position, token: position, text: 'x', generated: true, experts, weights: experts && experts.map((e) => e.map(() => 0.5)) });
  store.add({ tokens: [token(0, [[1, 2], [3]]), token(1, null)] });
  equal(store.since(), 1, 'the last token comes again');
  store.add({ tokens: [token(1, [[4], [5, 6]]), token(2, null)] });
  equal([store.tokens.length, store.since()], [3, 2], 'it is there once');
  equal(store.choice(1, 1), [{ expert: 5, weight: 0.5 }, { expert: 6, weight: 0.5 }], 'experts of a layer');
  equal([store.choice(0, 0).length, store.choice(2, 0)], [2, null], 'experts of others');
  equal([visible(''), visible('a\n'), visible('\u202eb\u0000')], ['·', 'a↵', '⟨202e⟩b␀'], 'texts without a shape');
}

function numbers({ whole, short, seconds, bytes, percent, span, policyText }) {
  equal([whole(null), whole(1234567), short(0), short(12345), short(1.234), short(3.1e10)],
    ['–', '1\u202f234\u202f567', '0', '12.3k', '1.23', '31G'], 'numbers');
  equal([seconds(0.0000213), seconds(0.0213), seconds(2.5), seconds(7300), span(90000)],
    ['21.3 µs', '21.3 ms', '2.50 s', '2 h 1 min', '1 d 1 h'], 'durations');
  equal([bytes(512), bytes(1536), percent(0.031), percent(0.5)], ['512 B', '1.50 KiB', '3.1\u202f%', '50\u202f%'], 'others');
  for (const step of [1e-5, 2e-4, 2.5e-4, 5e-4, 0.0025, 0.01, 0.025, 0.2]) {
    const ticks = [0, 1, 2, 3, 4].map((i) => percent(i * step));
    equal(new Set(ticks).size, 5, `ticks that differ: ${ticks}`);
  }
  equal([policyText({}), policyText({ mask: [3] }), policyText(null)],
    ['the model’s own', 'mask = [3]', 'a policy too large to show'], 'policies in a line');
}

function keys({ sendable }) {
  equal(['', 'sk-~!', 'a\u2013b', 'a b', 'schlüssel', 'a\n'].map(sendable), [true, true, false, false, false, false], 'keys');
}

/** Answers other than 200 to the probes with which a page begins; a key that no header can carry is stored before. */
async function probes(load) {
  const stored = new Map([['soli.key', 'a\u2013b']]);
  const answers = [[429, 'queue_full'], [503, ''], [200, '']];
  const stubs = {
    location: { pathname: '/dashboard' },
    document: { hidden: false, addEventListener: () => {} },
    sessionStorage: {
      getItem: (name) => stored.get(name) ?? null, setItem: (name, value) => stored.set(name, value),
      removeItem: (name) => stored.delete(name),
    },
    fetch: async () => {
      const [status, code] = answers.shift();
      return new Response(JSON.stringify({ error: { message: `it says ${status}`, code } }), { status });
    },
  };
  const before = Object.keys(stubs).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]);
  for (const [name, value] of Object.entries(stubs)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  try {
    const { status } = await load('link');
    const { askAll } = await load('poll');
    const { UNSENDABLE_KEY } = await load('key_text');
    equal([status.value, stored.size], [{ kind: 'locked', wrong: UNSENDABLE_KEY }, 0], 'a stored key that cannot be sent');
    const seen = [];
    askAll();
    await until(async () => {
      const { kind, why } = status.value;
      if (seen.at(-1) !== (why ?? kind)) seen.push(why ?? kind);
      return kind === 'ok';
    }, 'the page asks again after 429 and 503');
    equal(seen, ['connecting', 'it says 429', 'it says 503', 'ok'], 'what the page says meanwhile');
    await new Promise((resolve) => setTimeout(resolve, 50));  // Its last timer wants the document.
  } finally {
    for (const [name, descriptor] of before) {
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else delete globalThis[name];
    }
  }
}

export async function units() {
  const vite = createRequire(join(WEB, 'package.json')).resolve('vite');
  const { createServer } = await import(pathToFileURL(vite));
  const server = await createServer({
    root: WEB, configFile: false, appType: 'custom', server: { middlewareMode: true, hmr: false, ws: false, watch: null },
    logLevel: 'error', optimizeDeps: { noDiscovery: true },
  });
  try {
    const load = (name) => server.ssrLoadModule(`/src/lib/${name}.ts`);
    policies(await load('policy_text'));
    differences(await load('difference'));
    rings(await load('series_ring'));
    tokens(await load('token_store'));
    numbers(await load('format'));
    keys(await load('key_text'));
    await probes(load);
  } finally {
    await server.close();
  }
}
