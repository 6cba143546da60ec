import { useEffect, useRef } from 'preact/hooks';
import { sendable, UNSENDABLE_KEY } from './lib/key_text';
import { key, status } from './lib/link';
import { askAll } from './lib/poll';
import { useStore } from './lib/store';

/** Asks for the API key. It is kept in the tab's session and sent to this server alone. */
export function KeyForm() {
  const now = useStore(status);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const wrong = now.kind === 'locked' ? now.wrong : '';
  return (
    <form class="panel key" onSubmit={(event) => {
      event.preventDefault();
      const entered = input.current?.value.trim() ?? '';
      if (entered === '') return;
      if (!sendable(entered)) return status.set({ kind: 'locked', wrong: UNSENDABLE_KEY });
      key.set(entered);
      askAll();
    }}>
      <h2>This server asks for a key</h2>
      <label for="key">API key</label>
      <div class="row">
        <input id="key" ref={input} type="password" autocomplete="off" spellcheck={false} required
          aria-invalid={wrong !== ''} aria-describedby="key-note" />
        <button type="submit" class="main">Open</button>
      </div>
      <p id="key-note" class={wrong ? 'error' : 'quiet'} role={wrong ? 'alert' : undefined}>
        {wrong || 'It stays in this tab, and is forgotten when the tab is closed.'}
      </p>
    </form>
  );
}
