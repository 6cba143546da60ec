import { clock, whole } from '../lib/format';
import type { RequestLine } from '../lib/types';

/** The remembered requests, the latest first. */
export function RequestList({ requests, chosen, href }: {
  requests: RequestLine[]; chosen: string; href: (id: string) => string;
}) {
  return (
    <nav class="panel requests" aria-label="Requests">
      <h2>Requests</h2>
      {requests.length === 0 && <p class="quiet">None yet.</p>}
      <ul>
        {requests.map((line) => (
          <li key={line.id}>
            <a href={href(line.id)} aria-current={line.id === chosen ? 'true' : undefined}>
              <b>{line.id}</b>
              <span>
                {clock(line.started)} · {line.outcome ?? line.state}
                {` · ${whole(line.prompt_tokens)} + ${whole(line.generated_tokens)}`}
                {line.has_tokens ? '' : ' · no tokens'}{line.exact ? '' : ' · steered'}
              </span>
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
