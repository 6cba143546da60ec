#pragma once

// A parsed template. Trees are bounded in height (kMaxNesting), so that walking and freeing them is safe;
// what repeats side by side (a + b + c, elif) lies in lists.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "format/jinja/operators.h"
#include "format/jinja/value.h"

namespace soli::jinja {

struct Filter;
struct Test;
struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Call {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread;        // *list, or null
  ExpressionPtr spread_named;  // **mapping, or null
};

struct Expression {
  enum class Kind {
    kConstant,   // value
    kName,       // symbol
    kList,       // operands
    kTuple,      // operands
    kDict,       // operands: key, value, key, value
    kChain,      // operands joined by `operators`, from left to right
    kConcat,     // operands joined as text
    kCompare,    // operands; comparison i is between i and i + 1, all must hold
    kAnd,        // operands
    kOr,         // operands
    kNot,        // operands[0]
    kNegate,     // operands[0]
    kPlus,       // operands[0]
    kCondition,  // operands: condition, value, other value or null
    kAttribute,  // operands[0], name
    kElement,    // operands: value, index
    kSlice,      // operands: value, start, stop, step; each bound may be null
    kCall,       // operands[0], call
    kFilter,     // operands[0] (null: the text of a filter block), filter, call
    kTest,       // operands[0], test, call
  };

  Kind kind = Kind::kConstant;
  uint32_t line = 1;
  uint32_t symbol = 0;
  int height = 1;
  Value value;
  std::string name;
  std::shared_ptr<const std::string> missing;  // of kName: why it would be undefined
  std::vector<ExpressionPtr> operands;
  std::vector<BinaryOperator> operators;
  std::vector<Comparison> comparisons;
  // Null where there is none of that name, which matters only when it is used: templates name filters of
  // other engines in branches that are not taken.
  const Filter* filter = nullptr;
  const Test* test = nullptr;
  std::unique_ptr<Call> call;
};

struct Statement;
using Block = std::vector<Statement>;

/// What `set` and `for` assign to: one name, several, or an attribute of a namespace.
struct Target {
  std::vector<uint32_t> symbols;
  bool unpacks = false;   // a tuple, also of one name
  std::string attribute;  // of the namespace symbols[0]; "" for a name
};

struct Branch {
  ExpressionPtr condition;  // null: else
  Block body;
};

/// A macro, or the body of a call block.
struct MacroSyntax {
  struct Parameter {
    uint32_t symbol;
    std::string name;
    ExpressionPtr fallback;  // or null
  };
  std::string name;  // "" for the body of a call block
  uint32_t symbol = 0;
  std::vector<Parameter> parameters;
  Block body;
  bool takes_rest = false;        // varargs occurs in the body
  bool takes_rest_named = false;  // kwargs occurs in the body
};

struct Statement {
  enum class Kind {
    kText,      // text
    kPrint,     // expression
    kIf,        // branches
    kFor,       // target, expression, condition or null, body, otherwise
    kSet,       // target, expression
    kSetBlock,  // target, body, expression: the filters, or null
    kMacro,     // macro
    kCall,      // expression: a call; macro: its caller
    kFilter,    // expression: the filters; body
    kWith,      // assignments, body
    kScope,     // body, in a scope of its own ({% generation %})
    kBreak,
    kContinue,
  };

  Kind kind = Kind::kText;
  uint32_t line = 1;
  std::string text;
  ExpressionPtr expression;
  ExpressionPtr condition;
  Target target;
  std::vector<Branch> branches;
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Block body;
  Block otherwise;
  std::unique_ptr<MacroSyntax> macro;
};

/// Names that templates use, as numbers.
class Symbols {
 public:
  uint32_t of(std::string_view name);
  /// The number, or kNone for a name that the template never mentions.
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t find(std::string_view name) const;

 private:
  std::map<std::string, uint32_t, std::less<>> numbers_;
};

struct Syntax {
  Block body;
  Symbols symbols;
};

}  // namespace soli::jinja
