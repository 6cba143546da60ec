import { useEffect, useState } from 'preact/hooks';
import { percent, policyText, span } from './lib/format';
import { key, status } from './lib/link';
import { state } from './lib/model';
import { askAll } from './lib/poll';
import { useStore } from './lib/store';

/** Seconds until `at` by the page's clock, counted down. */
function Countdown({ at }: { at: number }) {
  const [left, setLeft] = useState(0);
  useEffect(() => {
    const count = () => setLeft(Math.max(0, Math.ceil((at - Date.now()) / 1000)));
    count();
    const timer = setInterval(count, 500);
    return () => clearInterval(timer);
  }, [at]);
  return <span aria-hidden="true">{left > 0 ? ` again in ${left} s` : ' asking …'}</span>;
}

/** Whether what is shown is of now; and whether answers are those of the model. */
export function StatusLine() {
  const now = useStore(status);
  const known = useStore(state);
  const steered = known !== null && !known.exact;
  return (
    <div class="status">
      {steered && (
        <span class="badge warn" title={policyText(known.policy)}>not exact</span>
      )}
      <span role="status" class={`link ${now.kind}`}>
        {now.kind === 'ok' && `live, up ${span(known?.uptime_seconds)}`}
        {now.kind === 'connecting' && 'connecting …'}
        {now.kind === 'loading' && `the model is being loaded ${now.progress === null ? '' : percent(now.progress)}`}
        {now.kind === 'locked' && 'locked'}
        {now.kind === 'lost' && `no connection (${now.why})`}
      </span>
      {now.kind === 'lost' && (
        <>
          <Countdown at={now.retry_at} />
          <button type="button" onClick={askAll}>Try now</button>
        </>
      )}
      {now.kind === 'ok' && key.get() && (
        <button type="button" title="The key is kept in this tab only" onClick={() => {
          key.forget();
          status.set({ kind: 'locked', wrong: '' });
        }}>Forget key</button>
      )}
    </div>
  );
}
