#include "cli/serve_model.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/utf8.h"
#include "cli/chat_inputs.h"
#include "cli/text_input.h"
#include "format/conversation.h"

namespace soli::cli {
namespace {

/// Of "models/demo-q8_0.gguf": "demo-q8_0".
std::string name_of_file(const std::string& path) {
  return printable(std::filesystem::path(path).stem().string(), kMaxModelIdBytes);
}

Status check_experts(const std::string& option, int64_t n, const ModelSpec& spec) {
  if (n > 0 && !spec.is_moe())
    return fail(ErrorKind::kInvalidArgument, "{} {}: this is a dense model", option, n);
  if (n > spec.router.n_reachable()) {
    return fail(ErrorKind::kInvalidArgument, "{} {}: a token can choose among {} of the {} experts per layer",
                option, n, spec.router.n_reachable(), spec.router.n_experts);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ServeModel>> ServeModel::open(const ServeOptions& options) {
  std::unique_ptr<ServeModel> model(new ServeModel(options));
  ModelOptions model_options = options.model;
  model_options.memory.further_bytes = options.server_bytes();
  SOLI_ASSIGN_OR_RETURN(model->session_, Session::open(model_options));
  const Session& session = *model->session_;
  const ModelSpec& spec = session.spec();
  SOLI_RETURN_IF_ERROR(check_experts("--max-experts-per-token", options.max_experts_per_token, spec));
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, model->session_->tokenizer());
  SOLI_RETURN_IF_ERROR(model->open_template(*tokenizer));
  model->parameters_ = count_parameters(session.file());
  model->page_bytes_ = KvPagePool::charged_bytes(model->engine_options().page_shape(spec));
  if (!options.no_dashboard) SOLI_RETURN_IF_ERROR(serve::Dashboard::check(options.dashboard, spec));
  auto experts = serve::ExpertFigures::create(spec, options.expert_metrics, !options.no_dashboard);
  if (!experts) return in_context("--expert-metrics", std::move(experts).error());
  model->experts_ = *std::move(experts);

  openai::ServedModel& served = model->served_;
  served.id = options.model_id.empty() ? name_of_file(options.model.path) : options.model_id;
  served.created = static_cast<int64_t>(std::time(nullptr));
  served.tokenizer = tokenizer;
  served.context_length = options.context_length(spec.context_length);
  served.parameters = &*model->parameters_;
  if (options.kv_tokens > 0 && options.kv_tokens < served.context_length) {
    return fail(ErrorKind::kInvalidArgument, "--kv-tokens {} is less than one context of {} tokens",
                options.kv_tokens, served.context_length);
  }
  served.limits.json.bytes = static_cast<size_t>(options.limits.max_body_bytes);
  served.limits.experts_per_token = options.max_experts_per_token;
  served.policy = session.policy();
  served.allow_policy = options.allow_policy;
  return model;
}

Status ServeModel::check_keys(const serve::ApiKeys& keys) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::string option = fmt::format("API key {} ('{}'): max-experts-per-token", i + 1, keys[i].name);
    SOLI_RETURN_IF_ERROR(check_experts(option, keys[i].max_experts_per_token, session_->spec()));
  }
  return {};
}

Status ServeModel::open_template(const Tokenizer& tokenizer) {
  if (options_.no_template) return {};
  std::string text;
  if (!options_.template_file.empty()) {
    SOLI_ASSIGN_OR_RETURN(text, read_text(options_.template_file, jinja::kMaxSourceBytes));
  } else if (const ChatTemplateText* const own = find_chat_template(tokenizer, false); own != nullptr) {
    text = own->text;
  } else {
    return {};
  }
  Result<ChatTemplate> parsed = ChatTemplate::parse(text);
  if (!parsed) {
    return fail(parsed.error().kind, "{}: {}; --template FILE gives another, --no-template takes no chats",
                options_.template_file.empty() ? options_.model.path : options_.template_file,
                parsed.error().message);
  }
  template_ = *std::move(parsed);
  served_.chat_template = &*template_;
  served_.chat_template_text = std::move(text);
  return {};
}

EngineOptions ServeModel::engine_options() const {
  EngineOptions engine = options_.model.engine;
  engine.context_length = served_.context_length;
  engine.max_experts_per_token = options_.max_experts_per_token;
  engine.prefix_cache = !options_.no_prefix_cache;
  engine.group_requests = !options_.no_grouping;
  engine.keep_routing = true;
  engine.keep_steering_state = options_.allow_policy.has_state();
  make_room_for(session_->policy(), engine);
  engine.max_kv_pages = KvPageTable::pages_for(options_.kv_tokens);
  return engine;
}

Status ServeModel::start(std::function<void(double)> on_progress) {
  EngineOptions engine = engine_options();
  session_->set_on_progress([on_progress = std::move(on_progress)](int64_t done, int64_t total) {
    if (total > 0) on_progress(static_cast<double>(done) / static_cast<double>(total));
  });
  const int64_t usual = std::min(engine.max_sequences, ServeOptions::kUsualContexts) * served_.context_length;
  const int64_t n_positions = options_.kv_tokens > 0 ? options_.kv_tokens : usual;
  engine.max_cached_pages = KvPageTable::pages_for(n_positions);
  SOLI_RETURN_IF_ERROR(session_->load(engine, n_positions, served_.context_length));
  if (experts_ != nullptr) session_->set_expert_meter(&experts_->meter());
  served_.spec = &session_->spec();
  served_.exact = session_->tiered() == nullptr || !options_.model.memory.lossy();
  served_.exact = served_.exact && session_->policy().is_exact();
  host_ = std::make_unique<serve::EngineHost>(session_->engine());
  return {};
}

serve::ModelBackend ServeModel::backend() {
  return {.engine = &session_->engine(),
          .model = &served_,
          .figures = [this] { return figures(); },
          .path = options_.model.path,
          .meter = experts_ == nullptr ? nullptr : &experts_->meter()};
}

void ServeModel::stop() {
  if (host_ != nullptr) host_->stop();
}

serve::ModelFigures ServeModel::figures() const {
  serve::ModelFigures figures;
  figures.engine = session_->engine().counters();
  const Budget& budget = session_->runtime().budget();
  figures.memory = budget.used_by_name();
  figures.memory_limit_bytes = budget.limit_bytes();
  const int64_t free_bytes = std::max<int64_t>(0, budget.limit_bytes() - budget.used_bytes());
  figures.max_running = engine_options().max_sequences;
  figures.max_kv_pages = engine_options().max_kv_pages;
  if (figures.max_kv_pages == 0) figures.max_kv_pages = figures.engine.kv_pages + free_bytes / page_bytes_;
  if (experts_ != nullptr) figures.experts = experts_->read();
  if (const TieredExpertStore* const tiered = session_->tiered()) {
    figures.cache = sum(tiered->counters());
    figures.n_expert_slots = session_->plan().tiers->n_slots;
  }
  return figures;
}

}  // namespace soli::cli
