/* Regular expressions: what they match, the error texts of invalid ones, and that hostile patterns
 * stay within their limits. The conformance tests of strings compare each pattern with RE2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/memory.h"
#include "kernels/text/regex.h"

static dp_regex *compile(const char *pattern) {
  dp_regex *regex = NULL;
  dp_status *status = dp_regex_compile(dp_view_of(pattern), &regex);
  assert_null(status);
  return regex;
}

static void expect_replaced(const char *pattern, const char *text, const char *rewrite,
                            const char *want) {
  dp_regex *regex = compile(pattern);
  dp_text out = {0};
  dp_regex_replace(regex, dp_view_of(text), dp_view_of(rewrite), true, &out);
  assert_string_equal(dp_text_string(&out), want);
  dp_text_deinit(&out);
  dp_regex_destroy(regex);
}

static void test_matches(void **unused) {
  expect_replaced("(\\w)(\\w)", "abcde", "\\2\\1", "badce");
  expect_replaced("a*", "baac", "-", "-b-c-");
  expect_replaced("(|a)+", "aa", "<\\0>", "<>a<>a<>");
  expect_replaced("(a|ab)(c|bcd)", "abcd", "[\\1,\\2]", "[a,bcd]");
  expect_replaced("\\Qa.b\\E+", "a.bb a-b", "x", "x a-b");
  expect_replaced("(?i)\\x{212a}", "kKs", "x", "xxs");
  expect_replaced("\\p{Greek}+", "abγδ!", "x", "abx!");
  /* The group is not there; an escape that means nothing. */
  expect_replaced("a", "aba", "\\1", "aba");
  expect_replaced("a", "aba", "x\\q", "xbx");
}

static void test_groups(void **unused) {
  dp_regex *regex = compile("(a)(b)?(?P<name>c)");
  dp_regex_match match;
  assert_true(dp_regex_find(regex, dp_view_of("xac"), 0, false, &match));
  assert_true(dp_view_equals(match.groups[0], "ac"));
  assert_true(dp_view_equals(match.groups[1], "a"));
  assert_null(match.groups[2].data);
  assert_true(dp_view_equals(match.groups[3], "c"));
  assert_false(dp_regex_find(regex, dp_view_of("xac"), 0, true, &match));
  assert_false(dp_regex_find(regex, dp_view_of("xac"), 2, false, NULL));
  dp_regex_destroy(regex);
}

static void test_refusals(void **unused) {
  static const char *const bad[][2] = {
      {"ab(c", "missing ): ab(c"},
      {"a)", "unexpected ): a)"},
      {"[a", "missing ]: [a"},
      {"*", "no argument for repetition operator: *"},
      {"a*?*", "bad repetition operator: *?*"},
      {"a{2}{3}", "bad repetition operator: {2}{3}"},
      {"a{1001}", "invalid repetition size: {1001}"},
      {"(?:a{31}){33}", "invalid repetition size: {33}"},
      {"\\", "trailing \\"},
      {"(a)\\1", "invalid escape sequence: \\1"},
      {"\\x{110000}", "invalid escape sequence: \\x{110000"},
      {"[a-\\d]", "invalid escape sequence: \\d"},
      {"[z-a]", "invalid character class range: z-a"},
      {"[[:nope:]]", "invalid character class range: [:nope:]"},
      {"\\p{Nope}", "invalid character class range: \\p{Nope}"},
      {"(?<n>a)", "invalid perl operator: (?<"},
      {"(?i-)", "invalid perl operator: (?i-)"},
      {"(?P<>a)", "invalid named capture group: (?P<>"},
      {"(?P<a", "invalid named capture group: (?P<a"},
      {"a\xff", "invalid UTF-8"},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); ++i) {
    dp_regex *regex = NULL;
    dp_status *status = dp_regex_compile(dp_view_of(bad[i][0]), &regex);
    assert_non_null(status);
    assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
    assert_string_equal(dp_status_message(status), bad[i][1]);
    assert_null(regex);
    dp_status_release(status);
  }
}

/* `part`, `count` times. */
static char *repeated(const char *part, size_t count) {
  size_t length = strlen(part);
  char *text = dp_malloc(length * count + 1);
  for (size_t i = 0; i < count; ++i)
    memcpy(text + i * length, part, length);
  text[length * count] = '\0';
  return text;
}

/* None of these may take long, much memory, or a deep stack. */
static void test_hostile_patterns(void **unused) {
  static const struct {
    const char *part;
    size_t count;
    bool fits;
  } hostile[] = {
      {"(", 5000, false},     {"(?:", 5000, false},   {"a|", 40000, true},
      {"|", 40000, true},     {"[^a]", 3000, true},   {"\\pL", 3000, false},
      {"(?i)k", 50000, true}, {"a", 2000000, false},  {"a?", 60000, false},
      {"()", 40000, true},    {"(a*)*", 10000, true}, {"(?:){1000}", 3000, true},
  };
  for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); ++i) {
    char *pattern = repeated(hostile[i].part, hostile[i].count);
    dp_regex *regex = NULL;
    dp_status *status = dp_regex_compile(dp_view_of(pattern), &regex);
    assert_int_equal(status == NULL, hostile[i].fits);
    if (regex)
      dp_regex_find(regex, dp_view_of("aaab"), 0, true, NULL);
    dp_status_release(status);
    dp_regex_destroy(regex);
    dp_free(pattern);
  }
}

static char *replaced(const char *pattern, const char *text, const char *rewrite) {
  dp_regex *regex = compile(pattern);
  dp_text out = {0};
  dp_regex_replace(regex, dp_view_of(text), dp_view_of(rewrite), true, &out);
  dp_regex_destroy(regex);
  return dp_text_take(&out);
}

/* Without groups ASCII text goes through tables, with them it does not: one result. */
static void test_tables_agree_with_threads(void **unused) {
  static const char *const patterns[] = {
      "a|ab",   "ab|a",      "a*",     "a*?",       "(?:a|b)+?c", "[^a]b*", "x*y|xxx",
      "n.mber", "(?:ab?)*?", "a{2,3}", "a{2,3}?b?", "",           "\\w+",   "(?i)AB"};
  static const char *const texts[] = {"",      "a",          "ab",    "abab",      "xxxxxxxxxxxx",
                                      "aaab",  "number nim", "bcabc", "a b aab c", "abc\n",
                                      "xxxxy", "abcabcabc"};
  for (size_t p = 0; p < sizeof patterns / sizeof *patterns; ++p)
    for (size_t t = 0; t < sizeof texts / sizeof *texts; ++t) {
      char grouped[64];
      snprintf(grouped, sizeof grouped, "(%s)", patterns[p]);
      char *table = replaced(patterns[p], texts[t], "<\\0>");
      char *threads = replaced(grouped, texts[t], "<\\1>");
      assert_string_equal(table, threads);
      dp_free(table);
      dp_free(threads);
      dp_regex *regex = compile(patterns[p]);
      dp_regex_match match;
      assert_int_equal(dp_regex_find(regex, dp_view_of(texts[t]), 0, true, NULL),
                       dp_regex_find(regex, dp_view_of(texts[t]), 0, true, &match));
      dp_regex_destroy(regex);
    }
}

/* Time grows with the text, not with its square or worse. */
static void test_no_backtracking(void **unused) {
  dp_regex *regex = compile("(?:a?){30}a{30}|(a*)*b|(?:x+x+)+y");
  char *text = repeated("ax", 20000);
  assert_false(dp_regex_find(regex, dp_view_of(text), 0, true, NULL));
  dp_free(text);
  dp_regex_destroy(regex);
  text = repeated("x", 200000);
  char *same = replaced("x*y", text, "z"); /* each place could begin a long match */
  assert_string_equal(same, text);
  dp_free(same);
  dp_free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matches),         cmocka_unit_test(test_groups),
      cmocka_unit_test(test_refusals),        cmocka_unit_test(test_hostile_patterns),
      cmocka_unit_test(test_no_backtracking), cmocka_unit_test(test_tables_agree_with_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
