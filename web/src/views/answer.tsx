import type { Answer } from '../lib/completion';
import { firstDifference, meanExperts, routingAgreement } from '../lib/difference';
import { policyText, seconds, short, whole } from '../lib/format';
import { link } from '../lib/model';

interface Props {
  title: string;
  answer: Answer;
  phase: 'waiting' | 'running' | 'done' | 'failed';
  error: string;
  other: string;
}

/** The text, with what comes after the first difference marked; only as far as both sides have come. */
function Marked({ text, other, done }: { text: string; other: string; done: boolean }) {
  const at = firstDifference(text, other);
  const ahead = at !== null && (at === other.length || at === text.length) && !done;
  if (at === null || ahead || other === '') return <>{text}</>;
  return <>{text.slice(0, at)}<mark>{text.slice(at)}</mark></>;
}

/** One of the two answers. Its text is set as text. */
export function AnswerPanel({ title, answer, phase, error, other }: Props) {
  return (
    <section class="panel answer" aria-label={title} aria-busy={phase === 'running'}>
      <h2>{title} <small class="quiet">{phase === 'done' ? (answer.finish ?? '') : phase}</small></h2>
      {error && <p class="error" role="alert">{error}</p>}
      <p class="text"><Marked text={answer.text} other={other} done={phase === 'done'} /></p>
      <dl class="about">
        <div><dt>Tokens</dt><dd>{whole(answer.tokens)}</dd></div>
        <div><dt>Tokens per second</dt><dd>{short(answer.per_second)}</dd></div>
        <div><dt>First token</dt><dd>{seconds(answer.first_token_s)}</dd></div>
        <div><dt>Experts per token</dt><dd>{short(meanExperts(answer))}</dd></div>
        <div><dt>Active parameters</dt><dd>{short(answer.active_parameters)}</dd></div>
        {answer.policy && <div><dt>Policy</dt><dd>{policyText(answer.policy)}</dd></div>}
      </dl>
      {answer.request_id && phase === 'done' && <a href={link('tokens', answer.request_id)}>Its tokens and experts</a>}
    </section>
  );
}

/** In a sentence or two: where the texts part, and how alike the experts were until then. */
export function Differences({ a, b, done }: { a: Answer; b: Answer; done: boolean }) {
  if (!done) return <p role="status" class="quiet">Running …</p>;
  const at = firstDifference(a.text, b.text);
  const agreement = routingAgreement(a, b);
  return (
    <p role="status" class="verdict">
      {at === null ? 'The texts are equal.' : `The texts differ from character ${at + 1} on.`}
      {agreement && ` Over the ${agreement.n_tokens} tokens that are the same, ${(agreement.jaccard * 100).toFixed(1)} % of ` +
        'the experts agree (mean Jaccard).'}
    </p>
  );
}
