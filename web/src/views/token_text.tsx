import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { expertClass } from '../lib/colour';
import { whole } from '../lib/format';
import { visible, type TokenStore } from '../lib/token_store';
import { Choice } from './choice';
import { TokenDetail } from './token_detail';

const PAGE = 1000;

const KEYS: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10, Home: -1e9, End: 1e9 };

/** One token: its text, and the number of its first expert below it. What it says is only ever set as text. */
function Token({ store, index, row, chosen }: { store: TokenStore; index: number; row: number; chosen: boolean }) {
  const token = store.tokens[index];
  if (!token) return null;
  const top = store.choice(index, row)?.[0]?.expert;
  const text = visible(token.text);
  return (
    <>
      <span class={`token ${top === undefined ? 'none' : expertClass(top)} ${token.generated ? 'made' : ''}`}
        role="option" id={`t${index}`} data-index={index} aria-selected={chosen}
        aria-label={`${text}, ${top === undefined ? 'no experts' : `expert ${top}`}`}>
        <bdi>{text}</bdi><small>{top ?? '–'}</small>
      </span>
      {token.text.endsWith('\n') && <br />}
    </>
  );
}

/** The text of a request, a page at a time. Arrow keys walk over the tokens; the detail follows. */
export function TokenText({ store, version, dropped }: { store: TokenStore; version: number; dropped: number }) {
  const [row, setRow] = useState(0);
  const [page, setPage] = useState(0);
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const n = store.tokens.length;
  const pages = Math.max(1, Math.ceil(n / PAGE));
  const first = Math.min(page, pages - 1) * PAGE;
  const spans = useMemo(() => {
    const all = [];
    for (let i = first; i < Math.min(n, first + PAGE); i += 1) {
      all.push(<Token key={i} store={store} index={i} row={row} chosen={i === at} />);
    }
    return all;
  }, [store, version, row, first, at]);
  useEffect(() => {
    const token = list.current?.querySelector(`#t${at}`);
    if (document.activeElement === list.current) token?.scrollIntoView({ block: 'nearest' });
  }, [at]);
  const go = (to: number) => {
    const next = Math.min(Math.max(0, to), n - 1);
    setAt(next);
    setPage(Math.floor(next / PAGE));
  };
  const layers = store.layers.map((layer, i) => ({ value: String(i), label: String(layer) }));
  return (
    <>
      <div class="bar">
        {layers.length > 0 && (
          <Choice label="Coloured by layer" value={String(row)} options={layers} choose={(r) => setRow(Number(r))} />
        )}
        {pages > 1 && (
          <span class="row">
            <button type="button" disabled={first === 0} onClick={() => go(first - PAGE)}>Earlier</button>
            <span>tokens {whole(first)} to {whole(Math.min(n, first + PAGE) - 1)} of {whole(n)}</span>
            <button type="button" disabled={first + PAGE >= n} onClick={() => go(first + PAGE)}>Later</button>
          </span>
        )}
        {dropped > 0 && <span class="warn">{whole(dropped)} tokens found no room</span>}
        <span class="quiet">Generated tokens are bold.</span>
      </div>
      <div class="reading">
        <div class="tokens" ref={list} tabIndex={0} role="listbox" aria-label="Tokens, with the expert of the highest score"
          aria-activedescendant={`t${at}`}
          onKeyDown={(event) => {
            const move = KEYS[event.key];
            if (move === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
            event.preventDefault();
            go(at + move);
          }}
          onClick={(event) => {
            const token = (event.target as Element).closest('[data-index]');
            if (token instanceof HTMLElement) go(Number(token.dataset.index));
          }}>
          {spans}
        </div>
        <TokenDetail store={store} index={at} />
      </div>
    </>
  );
}
