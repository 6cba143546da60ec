// Templates that want to do harm: a clear error within bounded time, memory and stack.

#include <gmock/gmock.h>

#include "format/jinja_test_support.h"
#include "support/small_stack.h"

namespace soli {
namespace {

using namespace jinja_test;
using ::testing::HasSubstr;

/// A level of nesting: what opens it, what stands inside at last, what closes it.
struct Shape {
  std::string open, inside, close;
};

const Shape kExpressions[] = {
    {"(", "1", ")"},
    {"[", "1", "]"},
    {"{'a': ", "1", "}"},
    {"-", "1", ""},
    {"not ", "1", ""},
    {"1 if 0 else ", "1", ""},
    {"x | default(", "1", ")"},
    {"1 is ne(", "2", ")"},
    {"f(", "1", ")"},
    {"x[", "1", "]"},
    {"x[1:", "1", "]"},
    {"(0 or not 1 == 1 ~ 1 + 1 * ", "1", ")"},
    {"", "x", "[0]"},
    {"", "x", "()"},
    {"", "x", " | upper"},
    {"", "x", " is defined is true"},
};

const Shape kStatements[] = {
    {"{% if 1 %}", "x", "{% endif %}"},
    {"{% if 0 %}{% else %}", "x", "{% endif %}"},
    {"{% for i in [1] %}", "x", "{% endfor %}"},
    {"{% for i in [] %}{% else %}", "x", "{% endfor %}"},
    {"{% macro f() %}", "x", "{% endmacro %}{{ f() }}"},
    {"{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}", "x", "{% endcall %}"},
    {"{% filter upper %}", "x", "{% endfilter %}"},
    {"{% set y %}", "x", "{% endset %}"},
    {"{% with y = 1 %}", "x", "{% endwith %}"},
    {"{% generation %}", "x", "{% endgeneration %}"},
};

std::string nested(const Shape& shape, int levels) {
  return times(levels, shape.open) + shape.inside + times(levels, shape.close);
}

TEST(JinjaLimits, NestingFitsASmallStackAndEndsInAnError) {
  on_small_stack([] {
    for (const Shape& shape : kExpressions) {
      SCOPED_TRACE(shape.open + shape.close);
      for (const int levels : {1, 5, 30, 38, 40, 100, 2'000}) {
        const std::string source = "{% set x = [] %}{{ " + nested(shape, levels) + " }}";
        const std::string error = error_of(source);
        if (levels >= 100) {
          EXPECT_THAT(error, HasSubstr("levels allowed"));
        }
        if (levels <= 5) {
          EXPECT_THAT(error, testing::Not(HasSubstr("levels allowed")));
        }
      }
    }
    for (const Shape& shape : kStatements) {
      SCOPED_TRACE(shape.open);
      for (const int levels : {1, 5, 30, 38, 40, 100, 2'000}) {
        const std::string error = error_of(nested(shape, levels));
        if (levels >= 100) {
          EXPECT_THAT(error, HasSubstr("levels allowed"));
        }
        if (levels <= 5) {
          EXPECT_EQ(error, "");
        }
      }
    }
  });
}

TEST(JinjaLimits, ExpressionsWithinStatementsFitASmallStack) {
  on_small_stack([] {
    for (const Shape& inner : kExpressions) {
      for (const Shape& outer : kStatements) {
        const Shape shape = {outer.open, "{{ " + nested(inner, 19) + " }}", outer.close};
        error_of("{% set x = [] %}" + nested(shape, 19));
      }
    }
  });
}

/// Macros that call themselves through everything that may stand around a call.
TEST(JinjaLimits, RecursionFitsASmallStackAndEndsInAnError) {
  on_small_stack([] {
    for (const Shape& shape : kStatements) {
      if (shape.open.starts_with("{% macro") || shape.open.find("else") != std::string::npos) continue;
      const std::string body = nested({shape.open, "{{ r(1 + n) }}", shape.close}, 3);
      SCOPED_TRACE(body);
      EXPECT_THAT(error_of("{% macro r(n) %}" + body + "{% endmacro %}{{ r(0) }}"),
                  HasSubstr("nest deeper than the 300 levels allowed"));
    }
    for (const std::string call : {"r(1 + n)",
                                   "[r(n)]",
                                   "{'a': r(n)}",
                                   "(1 ~ r(n))",
                                   "1 == r(n)",
                                   "1 and r(n)",
                                   "not r(n)",
                                   "r(n).x",
                                   "r(n)[0]",
                                   "r(n)[1:]",
                                   "[1][r(n):]",
                                   "r(n) | upper",
                                   "1 | replace(r(n), 1)",
                                   "1 is eq(r(n))",
                                   "r(r(n))",
                                   "r(n) if 1",
                                   "r(*[r(n)])",
                                   "r(**{'n': r(n)})",
                                   "-r(n)",
                                   "1 + r(n)"}) {
      SCOPED_TRACE(call);
      EXPECT_THAT(error_of("{% macro r(n) %}{{ " + call + " }}{% endmacro %}{{ r(0) }}"),
                  HasSubstr("nest deeper than the 300 levels allowed"));
    }
    EXPECT_THAT(error_of("{% macro r(n, m=r(n)) %}{% endmacro %}{{ r(0) }}"), HasSubstr("levels allowed"));
    EXPECT_THAT(error_of("{% macro r() %}{% call r() %}{{ r() }}{% endcall %}{% endmacro %}{{ r() }}"),
                HasSubstr("levels allowed"));
  });
}

TEST(JinjaLimits, DeepValuesOnASmallStack) {
  on_small_stack([] {
    const std::string deep =
        "{% set ns = namespace(v=[]) %}{% for i in range(62) %}{% set ns.v = [ns.v] if i % 2 else {'a': "
        "ns.v} %}"
        "{% endfor %}";
    // At the bottom of a recursion, what goes through values needs stack, too.
    const std::string recursion =
        "{% macro r(n) %}{% if n < 25 %}{{ r(n + 1) }}{% else %}{{ ns.v }}{{ ns.v | tojson }}{{ ns.v == ns.v "
        "}}"
        "{{ [ns.v] < [ns.v] }}{{ ns.v | string | length }}{% endif %}{% endmacro %}{{ r(0) }}";
    EXPECT_EQ(error_of(deep + recursion), "");
    EXPECT_THAT(
        error_of(
            "{% set ns = namespace(v=[]) %}{% for i in range(100) %}{% set ns.v = [ns.v] %}{% endfor %}"),
        HasSubstr("64 levels allowed"));
    EXPECT_THAT(render("{{ x }}", "{\"x\": " + times(100, "[") + times(100, "]") + "}"),
                HasSubstr("64 levels"));
  });
}

TEST(JinjaLimits, Steps) {
  const jinja::RenderLimits few = {.steps = 2'000};
  for (const std::string endless : {
           "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
           "{% for i in range(100000) %}{{ 1 + 1 }}{% endfor %}",
           "{% set x = range(1000) | list %}{% for i in range(1000) %}{{ x == x }}{% endfor %}",
           "{% set x = 'a' * 100000 %}{% for i in range(1000) %}{% if 'b' in x %}{% endif %}{% endfor %}",
           "{{ range(1000) | unique | list | length }}",
           "{% macro r() %}{% endmacro %}{% for i in range(100000) %}{{ r() }}{% endfor %}",
       }) {
    EXPECT_THAT(error_of(endless, few), HasSubstr("steps allowed")) << endless;
  }
  // Sharing makes this list of 2^60 elements cheap to build, and not cheap to compare.
  EXPECT_THAT(error_of("{% set ns = namespace(v=[]) %}{% for i in range(60) %}{% set ns.v = [ns.v, ns.v] %}"
                       "{% endfor %}{{ ns.v == ns.v }}",
                       {.steps = 1'000'000}),
              HasSubstr("steps allowed"));
}

TEST(JinjaLimits, BytesOfTheText) {
  const jinja::RenderLimits little = {.output_bytes = 1000};
  EXPECT_THAT(error_of("{% for i in range(1000) %}abc{% endfor %}", little), HasSubstr("allowed"));
  EXPECT_THAT(error_of("{{ 'a' * 1001 }}", little), HasSubstr("the text is longer than the 1000 B allowed"));
  EXPECT_EQ(error_of("{{ 'a' * 1000 }}", little), "");
}

TEST(JinjaLimits, BytesOfValues) {
  const jinja::RenderLimits little = {.value_bytes = 100'000};
  for (
      const std::string large : {
          "{{ 'a' * 1000000000000 }}",
          "{{ [1] * 1000000000000 }}",
          "{{ 'ab' * 9223372036854775807 }}",
          "{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
          "{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
          "{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = ns.x.replace('a', 'aa') %}{% "
          "endfor %}",
          "{% set ns = namespace(x=['a']) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
          "{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = '%s%s' | format(ns.x, ns.x) "
          "%}{% endfor %}",
          "{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] | join %}{% "
          "endfor %}",
          "{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] | string %}{% "
          "endfor %}",
          "{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] | tojson %}{% "
          "endfor %}",
          "{% set ns = namespace(x='a') %}{% for i in range(64) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset "
          "%}{% set "
          "ns.x = y %}{% endfor %}",
          "{% set ns = namespace(v=['a']) %}{% for i in range(60) %}{% set ns.v = [ns.v, ns.v] %}{% endfor %}"
          "{{ ns.v | tojson }}",
          "{{ range(100000) | list }}",
          "{% for i in range(10000) %}{% macro f() %}{% endmacro %}{% endfor %}",
          "{% for c in 'a' * 50000 %}{% endfor %}",
          "{{ ('a ' * 30000).split() }}",
          "{{ ('a\n' * 30000).splitlines() }}",
          "{{ ('a\n' * 4000) | indent(1000) }}",
      }) {
    EXPECT_THAT(error_of(large, little), HasSubstr("allowed")) << large;
  }
  EXPECT_EQ(render("{% for i in range(200) %}{% set x = 'a' * 50000 %}{% endfor %}x", "{}", little), "x")
      << "what is no longer there does not count";
}

TEST(JinjaLimits, Arguments) {
  EXPECT_THAT(error_of("{{ range(100001) }}"), HasSubstr("more than the 100000 elements allowed"));
  EXPECT_THAT(error_of("{{ range(-9223372036854775807, 9223372036854775807) }}"), HasSubstr("100000"));
  EXPECT_THAT(error_of("{{ 'a' | center(100000000000) }}"), HasSubstr("10000 is allowed"));
  EXPECT_THAT(error_of("{{ '%99999999999d' % 5 }}"), HasSubstr("10000"));
  EXPECT_THAT(error_of("{{ '{:99999999999}'.format(5) }}"), HasSubstr("10000"));
  EXPECT_THAT(error_of("{{ [1] | tojson(indent=100000000) }}"), HasSubstr("10000"));
  EXPECT_THAT(error_of("{{ strftime_now('%99999999d') }}"), HasSubstr("width"));
  EXPECT_THAT(error_of("{{ 9223372036854775807 + 1 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(error_of("{{ 99999999999999999999 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(error_of("{{ 2 ** 64 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(error_of("{{ (0 - 9223372036854775807 - 1) // -1 }}"), HasSubstr("64 bits"));
  EXPECT_EQ(render("{{ (0 - 9223372036854775807 - 1) % -1 }}"), "0");
  EXPECT_THAT(render("{{ x }}", R"({"x": 18446744073709551615})"),
              HasSubstr("18446744073709551615 is beyond"));
}

TEST(JinjaLimits, Sources) {
  EXPECT_THAT(error_of(std::string(jinja::kMaxSourceBytes + 1, 'x')), HasSubstr("262144 are allowed"));
  EXPECT_THAT(error_of("a\xff"), HasSubstr("not UTF-8"));
  EXPECT_EQ(render(std::string("a\0b", 3)), std::string("a\0b", 3));
}

TEST(JinjaLimits, TimeIsLinearWhereAPartAlmostOccurs) {
  // Each of these would take minutes in time that goes with the product of the lengths.
  const std::string text = "{% set x = 'a' * 2000000 %}{% set y = 'a' * 1000000 ~ 'b' %}";
  EXPECT_EQ(render(text +
                   "{{ x.find(y) }} {{ x.rfind(y) }} {{ x.count(y) }} {{ y in x }} {{ x.split(y) | length }} "
                   "{{ x.rsplit(y) | length }} {{ x.replace(y, '') | length }}"),
            "-1 -1 0 False 1 1 2000000");
}

TEST(JinjaSandbox, NoWayBeyondTheData) {
  check({{"{{ ''.__class__ }}", ""}, {"{{ [].__class__ is defined }}", "False"}, {"{{ x.__init__ }}", ""}},
        R"({"x": {"a": 1}})");
  for (const std::string walk :
       {"{{ ''.__class__.__mro__ }}", "{{ ''['__class__']['__base__'] }}", "{{ range.__globals__.x }}",
        "{{ namespace.__init__.y }}", "{{ loop.__class__.x }}", "{{ raise_exception.__globals__.x }}"}) {
    EXPECT_NE(error_of(walk), "") << walk;
  }
  EXPECT_THAT(error_of("{{ '{0.__class__}'.format(1) }}"), HasSubstr("neither the number nor the name"));
  EXPECT_THAT(error_of("{{ '{0[a]}'.format({}) }}"), HasSubstr("neither the number nor the name"));
  EXPECT_THAT(error_of("{{ [{}] | map(attribute='__class__.x') | list }}"), HasSubstr("__class__"));
}

TEST(JinjaSandbox, NothingIsChanged) {
  for (const std::string change :
       {"[].append(1)", "[1].pop()", "[1].clear()", "[1].sort()", "[1].insert(0, 1)", "{}.update({})",
        "{}.pop('a')", "{}.setdefault('a', 1)", "messages.append(1)"}) {
    EXPECT_THAT(error_of("{{ " + change + " }}"), HasSubstr("a template must not")) << change;
  }
  EXPECT_EQ(render("{{ {}.pop is defined }}"), "False");
}

TEST(JinjaSandbox, NothingHoldsItself) {
  for (const std::string cycle :
       {"{% set ns = namespace() %}{% set ns.a = ns %}",
        "{% set ns = namespace() %}{% set ns.a = [{'b': ns}] %}",
        "{% set ns = namespace() %}{% for i in [ns] %}{% set ns.a = loop %}{% endfor %}",
        "{% set ns = namespace() %}{% for i in [ns] %}{% set ns.a = loop.cycle %}{% endfor %}",
        "{% set ns = namespace() %}{% set ns.a = cycler(ns) %}"}) {
    EXPECT_THAT(error_of(cycle), HasSubstr("which can change")) << cycle;
  }
  EXPECT_NE(error_of("{% for i in [1] %}{{ loop.changed(loop) }}{% endfor %}"), "");
}

TEST(JinjaSandbox, MacrosOutliveTheBlockThatTheyAreIn) {
  check(
      {{"{% set ns = namespace() %}{% for i in [1, 2] %}{% macro f() %}<{{ i }}>{% endmacro %}{% if i == 1 %}"
        "{% set ns.f = f %}{% endif %}{% endfor %}{{ ns.f() }}",
        "<1>"},
       {"{% macro f() %}{% macro g() %}G{% endmacro %}{% set ns.g = g %}{% endmacro %}{% set ns = "
        "namespace() %}"
        "{{ f() }}{{ ns.g() }}",
        "G"}});
}

}  // namespace
}  // namespace soli
