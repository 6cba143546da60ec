#pragma once

// Requests of the dashboard as docs/dashboard.md shows them. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "format/tokenizer.h"
#include "serve/dashboard/request_traces.h"
#include "serve/openai/json_text.h"

namespace soli::serve {

openai::Json request_json(const TracedSummary& request);

/// A request with its tokens from a position on; an object of JSON.
std::string request_tokens_text(const TracedRequest& request, const std::vector<int64_t>& layers,
                                const Tokenizer& tokenizer, int64_t since);

}  // namespace soli::serve
