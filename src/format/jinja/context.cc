#include "format/jinja/context.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "format/jinja/operators.h"

namespace soli::jinja {

Status Context::work(size_t steps) {
  steps_ += std::min(steps, limits_.steps + 1);
  if (steps_ <= limits_.steps) return {};
  return fail(ErrorKind::kLimit, "the template takes more than the {} steps allowed", limits_.steps);
}

Status Context::room_for(size_t bytes) const {
  if (bytes <= limits_.value_bytes && meter_.used <= limits_.value_bytes - bytes) return {};
  return fail(ErrorKind::kLimit, "the values of the template take more than the {} allowed",
              format_bytes(static_cast<int64_t>(limits_.value_bytes)));
}

Result<Value> Context::text(std::string bytes, bool is_markup) {
  SOLI_RETURN_IF_ERROR(room_for(bytes.capacity()));
  SOLI_RETURN_IF_ERROR(look_at(bytes.size()));
  auto made = std::make_shared<Text>(meter_, std::move(bytes));
  made->is_markup = is_markup;
  return Value(std::shared_ptr<const Text>(std::move(made)));
}

Result<Value> Context::sequence(std::vector<Value> items, bool is_tuple) {
  SOLI_RETURN_IF_ERROR(room_for(items.capacity() * kValueBytes));
  SOLI_RETURN_IF_ERROR(work(items.size()));
  auto made = std::make_shared<const List>(meter_, std::move(items), is_tuple);
  if (made->depth > kMaxValueDepth) {
    return fail(ErrorKind::kLimit, "lists and mappings nest deeper than the {} levels allowed",
                kMaxValueDepth);
  }
  return Value(std::move(made));
}

Result<Value> Context::dict(std::vector<Dict::Entry> entries) {
  SOLI_RETURN_IF_ERROR(room_for(entries.capacity() * (sizeof(Dict::Entry) + sizeof(uint32_t))));
  SOLI_RETURN_IF_ERROR(work(entries.size()));
  for (const auto& [key, value] : entries) {
    if (key.is_text() && key.bytes().size() > kMaxKeyBytes) {
      return fail(ErrorKind::kLimit, "a key of a mapping has {} bytes; up to {} are allowed",
                  key.bytes().size(), kMaxKeyBytes);
    }
  }
  SOLI_RETURN_IF_ERROR(merge_equal_keys(*this, entries));
  auto made = std::make_shared<const Dict>(meter_, std::move(entries));
  if (made->depth > kMaxValueDepth) {
    return fail(ErrorKind::kLimit, "lists and mappings nest deeper than the {} levels allowed",
                kMaxValueDepth);
  }
  return Value(std::move(made));
}

std::tm Context::now() const {
  if (now_) return *now_;
  const std::time_t seconds = std::time(nullptr);
  std::tm local = {};
  ::localtime_r(&seconds, &local);
  return local;
}

bool TextBuilder::grow_by(size_t bytes) {
  if (failed_) return false;
  if (bytes > max_bytes_ || text_.size() > max_bytes_ - bytes) {
    failed_ = true;
    error_ = {ErrorKind::kLimit, fmt::format("the text is longer than the {} allowed",
                                             format_bytes(static_cast<int64_t>(max_bytes_)))};
    return false;
  }
  if (text_.capacity() - text_.size() < bytes) {
    const size_t wanted = std::max(text_.size() + bytes, text_.capacity() * 2);
    // The old and the new text are both there while one is copied into the other.
    if (const Status status = context_.room_for(wanted); !status) {
      failed_ = true;
      error_ = status.error();
      return false;
    }
    text_.reserve(wanted);
    context_.meter().used += text_.capacity() - charged_;
    charged_ = text_.capacity();
  }
  if (const Status status = context_.look_at(bytes); !status) {
    failed_ = true;
    error_ = status.error();
  }
  return !failed_;
}

void TextBuilder::append(std::string_view more) {
  if (grow_by(more.size())) text_.append(more);
}

void TextBuilder::append(size_t count, char c) {
  if (grow_by(count)) text_.append(count, c);
}

Result<std::string> TextBuilder::finish() {
  if (failed_) return tl::unexpected<Error>(error_);
  context_.meter().used -= std::exchange(charged_, 0);
  return std::move(text_);
}

Result<Value> TextBuilder::finish_value() {
  SOLI_ASSIGN_OR_RETURN(std::string text, finish());
  text.shrink_to_fit();
  return context_.text(std::move(text));
}

}  // namespace soli::jinja
