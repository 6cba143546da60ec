"""What the answers add up to, against what the server has counted."""

import client


class Ledger:
    """The sums over the answers of one round. What was broken off may have counted in part: between two bounds."""

    def __init__(self):
        self.prompt_tokens = [0, 0]  # least, most
        self.generated_tokens = [0, 0]
        self.ended = {"stop": [0, 0], "length": [0, 0], "abort": [0, 0]}
        self.cached_tokens = 0
        self.whole_answers = 0  # of generations and embeddings
        self.broken_answers = 0  # of which a part may have been computed
        self.statuses = {}  # of all answers, by status

    def saw(self, status):
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def answered(self, work, usage):
        self.whole_answers += 1
        self._add(self.prompt_tokens, work.prompt_tokens, work.prompt_tokens)
        self._add(self.generated_tokens, work.generated_tokens, work.generated_tokens)
        self.cached_tokens += (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        for choice in work.choices:
            self._add(self.ended[choice.get("finish_reason", "stop")], 1, 1)  # an embedding has none

    def broken_off(self, work, n_events):
        """Its client left, having seen so many events with text."""
        is_counted = n_events > 0 and work.n_sequences == 1
        self._break(work, work.prompt_tokens if is_counted else 0, n_events)

    def _break(self, work, prompt_tokens, generated_tokens):
        """At least so much was computed, at most all of it."""
        self.broken_answers += 1
        self._add(self.prompt_tokens, prompt_tokens, work.prompt_tokens)
        self._add(self.generated_tokens, generated_tokens, work.generated_tokens)
        for bounds in self.ended.values():
            self._add(bounds, 0, work.n_sequences)

    @staticmethod
    def _add(bounds, least, most):
        bounds[0] += least
        bounds[1] += most


class Counters:
    """The rise of the counters between two scrapes."""

    def __init__(self, before, after):
        self._before, self._after = before, after

    def rise(self, name, label=""):
        return client.total(self._after, name, label) - client.total(self._before, name, label)


def faults_of(ledger, counters):
    """Sentences, one for each sum that does not come out."""
    faults = []

    def check(what, risen, bounds):
        least, most = bounds
        if not least <= risen <= most:
            allowed = f"{least}" if least == most else f"{least} to {most}"
            faults.append(f"{what} rose by {risen:g}; the answers add up to {allowed}")

    check("soli_prompt_tokens_total", counters.rise("soli_prompt_tokens_total"), ledger.prompt_tokens)
    check("soli_generation_tokens_total", counters.rise("soli_generation_tokens_total"), ledger.generated_tokens)
    for reason, bounds in ledger.ended.items():
        check(f"soli_requests_total of {reason}", counters.rise("soli_requests_total", f'="{reason}"'), bounds)
    check("soli_requests_total of error", counters.rise("soli_requests_total", '="error"'), (0, 0))
    check(
        "soli_e2e_request_latency_seconds_count",
        counters.rise("soli_e2e_request_latency_seconds_count"),
        (ledger.whole_answers, ledger.whole_answers + ledger.broken_answers),
    )
    hits = counters.rise("soli_prefix_cache_hits_total")
    queries = counters.rise("soli_prefix_cache_queries_total")
    check("soli_prefix_cache_hits_total", hits, (ledger.cached_tokens, queries))
    for status in sorted(ledger.statuses):
        if status != 200:
            risen = counters.rise("soli_http_responses_total", f'code="{status}"')
            n = ledger.statuses[status]
            check(f"soli_http_responses_total of {status}", risen, (n, n + ledger.broken_answers))
    return faults


def moved_while_idle(before, after):
    """Names of what changed although nothing was asked for; a scrape may count itself."""
    names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return sorted(name for name in names if not name.startswith(("soli_http_", "process_")))
