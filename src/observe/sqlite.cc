#include "observe/sqlite.h"

#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/utf8.h"

namespace soli {
namespace {

// How long somebody who reads may hold up what is written, and the other way round.
constexpr int kBusyMilliseconds = 600'000;
// Of a schema and of values in it, far above what a trace has.
constexpr int kMostSqlBytes = 100'000;
constexpr int kMostColumns = 100;
constexpr int kMostExpressionDepth = 50;
// A row of a trace takes less than one step of the virtual machine per byte.
constexpr int kStepsPerPortion = 1000;
constexpr int64_t kStepsPerByte = 8;
constexpr int64_t kFreePortions = 1000;

tl::unexpected<Error> sqlite_error(sqlite3* database, const std::string& path) {
  const int code = sqlite3_extended_errcode(database);
  const std::string message = printable(sqlite3_errmsg(database), 200);
  if (code == SQLITE_READONLY_ROLLBACK || code == SQLITE_READONLY_RECOVERY) {
    return fail(ErrorKind::kIo,
                "{}: whoever wrote it was ended in the middle, and {}-journal says what to take back; "
                "sqlite3 {} .tables does",
                path, path, path);
  }
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return fail(ErrorKind::kMalformed, "{}: is no SQLite database", path);
    case SQLITE_CORRUPT:
    case SQLITE_TOOBIG:
    case SQLITE_ERROR:
    case SQLITE_SCHEMA:
      return fail(ErrorKind::kMalformed, "{}: {}", path, message);
    case SQLITE_INTERRUPT:
      return fail(ErrorKind::kMalformed,
                  "{}: is damaged: it takes far more steps to read than its size can need", path);
    case SQLITE_NOMEM:
      return fail(ErrorKind::kLimit, "{}: out of memory", path);
    default:
      return fail(ErrorKind::kIo, "{}: {}", path, message);
  }
}

}  // namespace

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void SqliteFile::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

void SqliteStatement::bind(int parameter, int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter, value);
}
void SqliteStatement::bind(int parameter, double value) {
  sqlite3_bind_double(statement_.get(), parameter, value);
}
void SqliteStatement::bind(int parameter, std::string_view text) {
  sqlite3_bind_text64(statement_.get(), parameter, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
}
void SqliteStatement::bind(int parameter, std::span<const std::byte> blob) {
  sqlite3_bind_blob64(statement_.get(), parameter, blob.data(), blob.size(), SQLITE_STATIC);
}
void SqliteStatement::bind_null(int parameter) { sqlite3_bind_null(statement_.get(), parameter); }

Result<bool> SqliteStatement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return sqlite_error(sqlite3_db_handle(statement_.get()), path_);
}

Status SqliteStatement::run() {
  const Result<bool> stepped = step();
  reset();
  if (!stepped) return tl::unexpected<Error>(stepped.error());
  return {};
}

void SqliteStatement::reset() { sqlite3_reset(statement_.get()); }

bool SqliteStatement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

tl::unexpected<Error> SqliteStatement::wrong_type(int column, const char* name, const char* wanted) const {
  constexpr const char* kNames[] = {"?", "an integer", "a number", "text", "a blob", "null"};
  const int type = std::clamp(sqlite3_column_type(statement_.get(), column), 0, 5);
  return fail(ErrorKind::kMalformed, "{}: {} is {}, not {}", path_, name, kNames[type], wanted);
}

Result<int64_t> SqliteStatement::integer(int column, const char* name) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER)
    return wrong_type(column, name, "an integer");
  return sqlite3_column_int64(statement_.get(), column);
}

Result<double> SqliteStatement::number(int column, const char* name) const {
  const int type = sqlite3_column_type(statement_.get(), column);
  if (type != SQLITE_INTEGER && type != SQLITE_FLOAT) return wrong_type(column, name, "a number");
  return sqlite3_column_double(statement_.get(), column);
}

Result<std::string_view> SqliteStatement::text(int column, const char* name) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_TEXT) return wrong_type(column, name, "text");
  const auto* const data = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  const auto bytes = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column));
  return std::string_view(data, data == nullptr ? 0 : bytes);
}

Result<std::span<const std::byte>> SqliteStatement::blob(int column, const char* name) const {
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_BLOB) return wrong_type(column, name, "a blob");
  const auto* const data = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), column));
  const auto bytes = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column));
  return std::span<const std::byte>(data, data == nullptr ? 0 : bytes);
}

Result<SqliteFile> SqliteFile::open_with(const std::string& path, int flags) {
  // A name that begins with ":" or "file:" would mean something else to SQLite.
  const std::string name = path.starts_with('/') ? path : "./" + path;
  sqlite3* database = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &database, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (database == nullptr) return fail(ErrorKind::kLimit, "{}: out of memory", path);
  SqliteFile file(database, path);
  if (code != SQLITE_OK) return sqlite_error(database, path);
  sqlite3_extended_result_codes(database, 1);
  sqlite3_busy_timeout(database, kBusyMilliseconds);
  return file;
}

Result<SqliteFile> SqliteFile::create(const std::string& path) {
  return open_with(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

Result<SqliteFile> SqliteFile::open(const std::string& path, int64_t max_value_bytes) {
  SOLI_ASSIGN_OR_RETURN(SqliteFile file, open_with(path, SQLITE_OPEN_READONLY));
  file.limit_what_a_file_may_ask();
  sqlite3* const database = file.database_.get();
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, static_cast<int>(max_value_bytes));
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  SOLI_RETURN_IF_ERROR(
      file.execute("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA query_only = ON"));
  return file;
}

void SqliteFile::limit_what_a_file_may_ask() {
  sqlite3* const database = database_.get();
  sqlite3_limit(database, SQLITE_LIMIT_SQL_LENGTH, kMostSqlBytes);
  sqlite3_limit(database, SQLITE_LIMIT_COLUMN, kMostColumns);
  sqlite3_limit(database, SQLITE_LIMIT_EXPR_DEPTH, kMostExpressionDepth);
  sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
  std::error_code unknown;  // then what is read will tell
  const uintmax_t bytes = std::filesystem::file_size(path_, unknown);
  const int64_t portions = unknown ? 0 : static_cast<int64_t>(bytes) / kStepsPerPortion * kStepsPerByte;
  steps_ = std::make_unique<StepLimit>();
  steps_->most = kFreePortions + portions;
  steps_->left = steps_->most;
  const auto count = [](void* steps) { return --static_cast<StepLimit*>(steps)->left < 0 ? 1 : 0; };
  sqlite3_progress_handler(database, kStepsPerPortion, count, steps_.get());
}

Status SqliteFile::execute(const std::string& sql) {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return sqlite_error(database_.get(), path_);
}

Result<SqliteStatement> SqliteFile::prepare(const std::string& sql) {
  if (steps_ != nullptr) steps_->left = steps_->most;
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &statement, nullptr);
  if (code != SQLITE_OK) return sqlite_error(database_.get(), path_);
  return SqliteStatement(statement, path_);
}

}  // namespace soli
