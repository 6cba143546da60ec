#pragma once

// SQLite with errors as values. Only what soli itself makes is written; what is read may come from anybody.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace soli {

/// A prepared statement. Not longer than its database; one thread at a time. Move-only.
class SqliteStatement {
 public:
  /// Parameters count from 1, columns from 0. What is bound must live until the next reset() or bind.
  void bind(int parameter, int64_t value);
  void bind(int parameter, double value);
  void bind(int parameter, std::string_view text);
  void bind(int parameter, std::span<const std::byte> blob);
  void bind_null(int parameter);

  /// True where there is a row, false at the end. Fails with kMalformed or kIo, naming the file.
  Result<bool> step();
  /// Runs a statement that gives no rows, and makes it ready for the next time.
  Status run();
  void reset();

  bool is_null(int column) const;
  /// Fail with kMalformed where the value is of another type; `name` is the column that the error names.
  Result<int64_t> integer(int column, const char* name) const;
  Result<double> number(int column, const char* name) const;
  /// Valid until the next step().
  Result<std::string_view> text(int column, const char* name) const;
  Result<std::span<const std::byte>> blob(int column, const char* name) const;

 private:
  friend class SqliteFile;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteStatement(sqlite3_stmt* statement, std::string path)
      : statement_(statement), path_(std::move(path)) {}
  tl::unexpected<Error> wrong_type(int column, const char* name, const char* wanted) const;

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string path_;
};

/// A database in one file. One thread at a time. Move-only.
class SqliteFile {
 public:
  /// An empty database in a new file, or in one that is there and empty.
  static Result<SqliteFile> create(const std::string& path);
  /// Read-only, for files that may be hostile: nothing in the schema is run, and a value longer than
  /// `max_value_bytes` is an error, as is a statement that takes far more steps than a file of this size can
  /// give work for: damaged trees may lead in circles. Fails with kNotFound, kIo or kMalformed.
  static Result<SqliteFile> open(const std::string& path, int64_t max_value_bytes);

  /// One or more statements without parameters; rows are passed over.
  Status execute(const std::string& sql);
  Result<SqliteStatement> prepare(const std::string& sql);
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  SqliteFile(sqlite3* database, std::string path) : database_(database), path_(std::move(path)) {}
  static Result<SqliteFile> open_with(const std::string& path, int flags);
  void limit_what_a_file_may_ask();

  /// Counts down, in portions of SQLite's virtual machine; each statement begins anew.
  struct StepLimit {
    int64_t most = 0;
    int64_t left = 0;
  };

  std::unique_ptr<StepLimit> steps_;  // where there is one; SQLite points to it
  std::unique_ptr<sqlite3, Close> database_;
  std::string path_;
};

}  // namespace soli
