#pragma once

#include "serve/openai/fields.h"
#include "serve/openai/job.h"
#include "serve/openai/served_model.h"

namespace soli::openai {

/// Prompts that have been read, as the engine takes them.
using Prompts = std::vector<std::vector<int32_t>>;

/// 404 where the request names another model than the one served.
void read_model(Fields& fields, const ServedModel& model);

/// The most, and the negative of the least, that "priority" may be.
inline constexpr int64_t kMaxPriority = 1000;
/// Reads "priority": among the waiting requests of one caller, the highest goes first.
void read_priority(Fields& fields, Request& request);

/// What chats and completions have in common: reads n, the sampling, stop, stream and the extensions into the
/// job, and into `request`, which is to be the pattern of all its requests. `max_new_tokens` is the default.
void read_generation(Fields& fields, const ServedModel& model, const Caller& caller, TextJob& job,
                     Request& request);

/// Makes the job's requests: n of the pattern for each prompt. Fails where a prompt has no room in the
/// context, or where there are too many choices.
ApiStatus make_requests(const ServedModel& model, const Request& pattern, Prompts prompts, TextJob& job);

/// The seed of a choice: the first one's is that of the request, so that a choice alone draws as `soli run`
/// with that seed does.
uint64_t seed_of_choice(uint64_t seed, int64_t choice);

}  // namespace soli::openai
