import { Fragment } from 'preact';
import { expertClass } from '../lib/colour';
import { visible, type TokenStore } from '../lib/token_store';

/** Everything about one token: its experts in each layer with their weights, the highest score first. */
export function TokenDetail({ store, index }: { store: TokenStore; index: number }) {
  const token = store.tokens[index];
  if (!token) return null;
  const known = store.choice(index, 0) !== null;
  return (
    <aside class="detail" aria-label="Chosen token">
      <h3><bdi>{visible(token.text)}</bdi></h3>
      <p class="quiet">position {token.position}, id {token.token}, {token.generated ? 'generated' : 'of the prompt'}</p>
      {!known && <p class="quiet">No experts: this token did not go through the model, or found no room.</p>}
      {known && (
        <table>
          <thead><tr><th scope="col">Layer</th><th scope="col">Experts and weights</th></tr></thead>
          <tbody>
            {store.layers.map((layer, row) => (
              <tr key={layer}>
                <th scope="row">{layer}</th>
                <td>
                  {store.choice(index, row)?.map(({ expert, weight }) => (
                    <Fragment key={expert}>
                      <span class={`pick ${expertClass(expert)}`}><b>{expert}</b> {weight.toFixed(3)}</span>
                      {' '}
                    </Fragment>
                  ))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </aside>
  );
}
