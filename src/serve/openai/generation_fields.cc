#include "serve/openai/generation_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/rng.h"
#include "base/utf8.h"
#include "serve/openai/policy_fields.h"

namespace soli::openai {
namespace {

constexpr int64_t kAnyCount = std::numeric_limits<int64_t>::max();

void read_sampling(Fields& fields, const Caller& caller, SamplingParams& sampling) {
  // What OpenAI documents as its defaults: draws from the model's own distribution.
  sampling = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};
  sampling.temperature = fields.number("temperature", {0, 2}).value_or(sampling.temperature);
  sampling.top_p = fields.number("top_p", {0, 1}).value_or(sampling.top_p);
  sampling.top_k = fields.integer("top_k", {0, kAnyCount}).value_or(sampling.top_k);
  sampling.min_p = fields.number("min_p", {0, 1}).value_or(sampling.min_p);
  sampling.frequency_penalty = fields.number("frequency_penalty", {-2, 2}).value_or(0);
  sampling.presence_penalty = fields.number("presence_penalty", {-2, 2}).value_or(0);
  sampling.repeat_penalty =
      fields.number("repeat_penalty", {0, 1000, true}).value_or(sampling.repeat_penalty);
  sampling.repeat_last_n = fields.integer("repeat_last_n", {0, kAnyCount}).value_or(sampling.repeat_last_n);
  const std::optional<int64_t> seed =
      fields.integer("seed", {std::numeric_limits<int64_t>::min(), kAnyCount});
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : caller.seed;
}

/// A token id as clients write it in the name of a member.
std::optional<int32_t> token_of_name(std::string_view name, int64_t vocab_size) {
  int64_t id = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  const bool canonical = name == "0" || (!name.empty() && name.front() >= '1' && name.front() <= '9');
  if (error != std::errc() || end != name.data() + name.size() || !canonical || id >= vocab_size) return {};
  return static_cast<int32_t>(id);
}

void read_logit_bias(Fields& fields, const ServedModel& model, SamplingParams& sampling) {
  const Json* const bias = fields.find("logit_bias");
  if (bias == nullptr) return;
  const auto refuse = [&](const std::string& why) {
    fields.fail(bad_request("invalid_value", "logit_bias", "'logit_bias' {}", why));
  };
  if (!bias->is_object()) {
    return refuse(fmt::format("is {}; allowed is an object of token ids and numbers", shown(*bias)));
  }
  if (bias->size() > static_cast<size_t>(model.limits.logit_bias)) {
    return refuse(fmt::format("has {} entries; allowed are {}", bias->size(), model.limits.logit_bias));
  }
  for (const auto& [name, value] : bias->get_ref<const Json::object_t&>()) {
    const std::optional<int32_t> token = token_of_name(name, model.spec->vocab_size);
    if (!token) {
      return refuse(fmt::format("names the token '{}'; allowed are ids from 0 to {}", printable(name, 40),
                                model.spec->vocab_size - 1));
    }
    const double number = value.is_number() ? value.get<double>() : 1e9;
    if (number < -100 || number > 100) {
      return refuse(
          fmt::format("of token {} is {}; allowed is a number from -100 to 100", name, shown(value)));
    }
    sampling.logit_bias.push_back({*token, number});
  }
}

void read_stop(Fields& fields, const ServedModel& model, TextJob& job) {
  const Json* const stop = fields.find("stop");
  if (stop == nullptr) return;
  const std::string wanted = fmt::format("a string, or a list of up to {} strings, of 1 to {} bytes each",
                                         model.limits.stop_strings, model.limits.stop_bytes);
  const auto add = [&](const std::string& path, const Json& text) {
    const size_t bytes = text.is_string() ? text.get_ref<const std::string&>().size() : 0;
    if (bytes == 0 || bytes > static_cast<size_t>(model.limits.stop_bytes)) {
      return fields.fail_value(path, text, wanted);
    }
    job.stops.push_back(text.get<std::string>());
  };
  if (!stop->is_array()) return add("stop", *stop);
  if (stop->size() > static_cast<size_t>(model.limits.stop_strings)) {
    return fields.fail_value("stop", *stop, wanted);
  }
  for (size_t i = 0; i < stop->size(); ++i) add(fmt::format("stop[{}]", i), (*stop)[i]);
}

void read_stream(Fields& fields, TextJob& job) {
  job.stream = fields.boolean("stream").value_or(false);
  const Json* const options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return fields.fail_value("stream_options", *options, "an object");
  if (!job.stream) {
    return fields.fail(bad_request("invalid_value", "stream_options",
                                   "'stream_options' is for streams; allowed with \"stream\": true"));
  }
  Fields inner(*options, "stream_options.");
  job.include_usage = inner.boolean("include_usage").value_or(false);
  inner.neutral("include_obfuscation", {false});
  if (const ApiStatus status = inner.finish(); !status) fields.fail(status.error());
}

void read_routing(Fields& fields, const ServedModel& model, TextJob& job, Request& request) {
  const Json* const routing = fields.find("routing");
  if (routing == nullptr || *routing == false) return;
  if (*routing == true) {
    job.routing = RoutingDetail::kSummary;
  } else if (*routing == "tokens") {
    job.routing = RoutingDetail::kTokens;
  } else {
    return fields.fail_value("routing", *routing, "true, false or 'tokens'");
  }
  if (!model.spec->is_moe()) {
    return fields.fail(bad_request("unsupported_parameter", "routing",
                                   "'routing' needs a model with experts; '{}' is dense", model.id));
  }
  job.show_experts_per_token = true;
  request.want_routing = true;
}

void read_max_tokens(Fields& fields, Request& request) {
  const std::optional<int64_t> most = fields.integer("max_tokens", {0, kAnyCount});
  const std::optional<int64_t> newer = fields.integer("max_completion_tokens", {0, kAnyCount});
  if (most && newer && *most != *newer) {
    fields.fail(bad_request("invalid_value", "max_completion_tokens",
                            "'max_tokens' is {} and 'max_completion_tokens' is {}; allowed is one of them",
                            *most, *newer));
  }
  if (most || newer) request.max_new_tokens = newer ? *newer : *most;
}

}  // namespace

void read_model(Fields& fields, const ServedModel& model) {
  const std::optional<std::string> name = fields.text("model");
  if (!name || *name == model.id) return;
  fields.fail({404, kInvalidRequest, "model_not_found", "model",
               fmt::format("the model '{}' is not served here; '{}' is", printable(*name), model.id)});
}

void read_generation(Fields& fields, const ServedModel& model, const Caller& caller, TextJob& job,
                     Request& request) {
  read_model(fields, model);
  job.n = fields.integer("n", {1, model.limits.choices}).value_or(1);
  read_max_tokens(fields, request);
  read_sampling(fields, caller, request.sampling);
  read_logit_bias(fields, model, request.sampling);
  read_stop(fields, model, job);
  read_stream(fields, job);
  read_routing(fields, model, job, request);
  read_policy(fields, model, caller, job, request);
  if (!fields.boolean("ignore_eos").value_or(false)) {
    request.end_tokens = model.tokenizer->end_of_generation_ids();
  }
  read_priority(fields, request);
  fields.label("user", Json::value_t::string);
}

void read_priority(Fields& fields, Request& request) {
  const int64_t priority = fields.integer("priority", {-kMaxPriority, kMaxPriority}).value_or(0);
  request.priority = static_cast<int32_t>(priority);
}

ApiStatus make_requests(const ServedModel& model, const Request& pattern, Prompts prompts, TextJob& job) {
  const auto n_prompts = static_cast<int64_t>(prompts.size());
  if (job.n * n_prompts > model.limits.total_choices) {
    return tl::unexpected(bad_request("invalid_value", "n",
                                      "'n' is {} for each of {} prompts; allowed are {} choices in all",
                                      job.n, n_prompts, model.limits.total_choices));
  }
  for (std::vector<int32_t>& prompt : prompts) {
    for (int64_t i = 0; i < job.n; ++i) {
      Request request = pattern;
      request.sampling.seed = seed_of_choice(pattern.sampling.seed, i);
      if (i + 1 < job.n) {
        request.prompt = prompt;
      } else {
        request.prompt = std::move(prompt);
      }
      job.requests.push_back(std::move(request));
    }
  }
  return {};
}

uint64_t seed_of_choice(uint64_t seed, int64_t choice) {
  return choice == 0 ? seed : hash_u64(seed ^ hash_u64(static_cast<uint64_t>(choice)));
}

}  // namespace soli::openai
