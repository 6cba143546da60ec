import type { ComponentType } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { KeyForm } from './key_form';
import { status } from './lib/link';
import { alarms, link, route, state, takeState } from './lib/model';
import { usePoll } from './lib/poll';
import { useStore } from './lib/store';
import type { Alarms } from './lib/types';
import { StatusLine } from './status_line';
import { AlarmsView } from './views/alarms';
import { CompareView } from './views/compare';
import { ExpertsView } from './views/experts';
import { Overview } from './views/overview';
import { StateView } from './views/state';
import { TokensView } from './views/tokens';

const VIEWS: { name: string; label: string; view: ComponentType }[] = [
  { name: 'overview', label: 'Overview', view: Overview },
  { name: 'tokens', label: 'Tokens', view: TokensView },
  { name: 'experts', label: 'Experts', view: ExpertsView },
  { name: 'alarms', label: 'Alarms', view: AlarmsView },
  { name: 'compare', label: 'Compare', view: CompareView },
  { name: 'state', label: 'Server', view: StateView },
];

const STATE_MS = 2000;
const ALARMS_MS = 2000;

function Navigation({ chosen, n_open }: { chosen: string; n_open: number }) {
  return (
    <nav aria-label="Views">
      {VIEWS.map(({ name, label }) => (
        <a key={name} href={link(name)} aria-current={name === chosen ? 'page' : undefined}>
          {label}
          {name === 'alarms' && n_open > 0 && <b class="count" aria-label={`, ${n_open} open`}>{n_open}</b>}
        </a>
      ))}
    </nav>
  );
}

/** Says aloud, once each, when hot experts come and go. */
function AlarmVoice({ n_open }: { n_open: number }) {
  const before = useRef(n_open);
  const [said, say] = useState('');
  useEffect(() => {
    if (n_open !== before.current) say(n_open > 0 ? `${n_open} hot experts` : 'No hot experts any more');
    before.current = n_open;
  }, [n_open]);
  return <p class="unseen" role="status">{said}</p>;
}

export function App() {
  const { kind } = useStore(status);
  const known = useStore(state);
  const { view } = useStore(route);
  const open = useStore(alarms)?.n_open ?? known?.alarms?.open ?? 0;
  usePoll('state', STATE_MS, takeState);
  usePoll<Alarms>(known?.alarms ? 'alarms' : null, ALARMS_MS, (data) => alarms.set(data));
  const chosen = VIEWS.find((candidate) => candidate.name === view) ?? VIEWS[0];
  useEffect(() => {
    document.title = `${open > 0 ? `(${open}) ` : ''}${known?.model.id ?? 'soli'} · ${chosen?.label ?? ''}`;
  }, [open, known?.model.id, chosen]);
  if (!chosen) return null;
  const View = chosen.view;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById('main')?.focus();
      }}>To the content</a>
      <header>
        <h1><span class="brand">soli</span> {known?.model.id ?? ''}</h1>
        <Navigation chosen={chosen.name} n_open={open} />
        <StatusLine />
      </header>
      <AlarmVoice n_open={open} />
      <main id="main" tabIndex={-1} aria-label={chosen.label}>
        {kind === 'locked' ? <KeyForm /> : known ? <View key={chosen.name} /> : <p class="quiet">Waiting for the server …</p>}
      </main>
    </>
  );
}
