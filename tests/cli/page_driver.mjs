// Runs the script of a diagnosis' page with as little of a browser as it needs, points at token 1, and prints
// what the page then shows.
import { readFileSync } from 'node:fs';
import vm from 'node:vm';

class Element {
  constructor(name) {
    Object.assign(this, { name, children: [], style: {}, attributes: {}, listeners: {}, own: '', value: '' });
    const names = new Set();
    this.classList = { add: (n) => names.add(n), remove: (n) => names.delete(n), contains: (n) => names.has(n) };
  }
  get textContent() { return this.own + this.children.map((child) => child.textContent).join(''); }
  set textContent(text) { this.own = String(text); this.children = []; }
  append(...parts) { this.children.push(...parts); }
  appendChild(part) { this.children.push(part); return part; }
  replaceChildren(...parts) { this.children = parts; this.own = ''; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  focus() { this.listeners.focus?.(); }
  find(name) {
    return this.children.flatMap((child) => [...(child.name === name ? [child] : []), ...child.find(name)]);
  }
}

const page = readFileSync(process.argv[2], 'utf8');
const scripts = [...page.matchAll(/<script[^>]*>([^]*?)<\/script>/g)].map((match) => match[1]);
const ids = new Map([...page.matchAll(/ id="([^"]*)"/g)].map((match) => [match[1], new Element(match[1])]));
ids.get('data').textContent = scripts[0];
ids.get('by').value = 'experts';
const document = { getElementById: (id) => ids.get(id), createElement: (name) => new Element(name) };
vm.runInNewContext(scripts[1], { document });

const tokens = ids.get('text').children;
tokens[0].focus();
tokens[0].listeners.keydown({ key: 'ArrowRight', preventDefault() {} });
const rows = ids.get('path').find('tbody')[0].find('tr').map((row) => row.find('td').map((cell) => cell.textContent));
for (const by of ['segments', 'experts']) {
  ids.get('by').value = by;
  ids.get('by').listeners.change();
}
console.log(JSON.stringify({
  tokens: tokens.map((token) => token.textContent),
  path: rows,
  layers: ids.get('layer').children.map((option) => option.textContent),
  colours: tokens.map((token) => token.style.background),
  labels: tokens.map((token) => token.attributes['aria-label'].split(', ').pop()),
}));
