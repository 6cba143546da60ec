#pragma once

#include "engine/request.h"
#include "serve/openai/fields.h"
#include "serve/openai/job.h"
#include "serve/openai/served_model.h"

namespace soli::openai {

/// How the request's routing is steered: "policy", an object of the keys that a policy has
/// (docs/steering.md), which go before those of the server's policy, as far as server and key allow; and
/// "experts_per_token", the same as the key of that name.
void read_policy(Fields& fields, const ServedModel& model, const Caller& caller, TextJob& job,
                 Request& request);

}  // namespace soli::openai
