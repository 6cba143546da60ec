// What the tests of the dashboard share: the browser, a server that is started and ended, and steps that say their names.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
export const WEB = join(ROOT, 'web');
export const DEMO = join(ROOT, 'models', 'demo', 'soli-demo-16x2-q8_0.gguf');
const TEMPLATE = join(ROOT, 'tests', 'data', 'chat_templates', 'chatml.jinja');
export const PATIENCE_MS = 60_000;

/** What package-lock.json names, once. */
export function install() {
  if (existsSync(join(WEB, 'node_modules', 'playwright-core'))) return;
  execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: WEB, stdio: 'inherit' });
}

export async function browser() {
  const { chromium } = createRequire(join(WEB, 'package.json'))('playwright-core');
  // Without a sandbox: tests run as root in a container, and open no page but ours.
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
}

export function check(holds, what) {
  if (!holds) throw new Error(what);
}

export function equal(found, wanted, what) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what}: ${a?.slice(0, 400)}, and not ${b?.slice(0, 400)}`);
}

/** Waits until `found` gives something true, and returns it. */
export async function until(found, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await found();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export async function step(name, run) {
  process.stdout.write(`${name} ... `);
  const note = await run();
  console.log(note ? `ok (${note})` : 'ok');
}

/** A page whose questions to other hosts and whose errors are kept. */
export async function open(engine, url, options = {}) {
  const context = await engine.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const strangers = [];
  const errors = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:')) strangers.push(request.url());
  });
  page.on('pageerror', (error) => errors.push(error.message));
  page.setDefaultTimeout(PATIENCE_MS);
  return { context, page, strangers, errors };
}

/** `soli serve` of the demo model. */
export class Soli {
  constructor(program, port, ...options) {
    const more = ['--model-id', 'demo', '--allow-policy', 'all', '--max-experts-per-token', '4', '--template', TEMPLATE];
    const all = ['serve', DEMO, '--port', String(port), '--no-access-log', ...more, ...options];
    this.process = spawn(program, all, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.said = '';
    this.ended = new Promise((resolve) => this.process.on('exit', resolve));
    this.process.stderr.on('data', (data) => {
      this.said = (this.said + data).slice(-20_000);
    });
  }

  async ready() {
    await until(() => {
      check(this.process.exitCode === null, `soli has ended: ${this.said}`);
      return / is ready after /.test(this.said);
    }, 'soli is ready');
    this.port = Number(/listening on http:\/\/[^\n]*:(\d+)/.exec(this.said)[1]);
    this.url = `http://127.0.0.1:${this.port}`;
    return this;
  }

  async post(path, body, headers = {}) {
    const response = await fetch(this.url + path, {
      method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body),
    });
    const answer = await response.json();
    check(response.ok, `${path}: ${JSON.stringify(answer)}`);
    return { answer, id: response.headers.get('X-Request-Id') };
  }

  /** Requests one after the other until `stop()`, each with `body` added. */
  load(body = {}) {
    let going = true;
    const prompts = ['The river', 'A number is', 'In the year 1900', 'She said that'];
    const done = (async () => {
      for (let i = 0; going; i += 1) {
        await this.post('/v1/completions', { prompt: prompts[i % 4], max_tokens: 40, temperature: 1, seed: i, ...body });
      }
    })();
    return { stop: () => {
      going = false;
      return done;
    } };
  }

  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }
}
