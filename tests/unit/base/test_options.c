/* Options: every form and kind, the errors for wrong command lines, and the layout of the help. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"

static const dp_option table[] = {
    {"port", DP_OPTION_INT, "2222", "PORT", "Port to listen on; 0 takes a free one.", 0, 65535},
    {"job", DP_OPTION_STRING, NULL, "NAME", "Name of this task's job in the cluster.", 0, 0},
    {"step-timeout", DP_OPTION_DURATION, "10s", "TIME",
     "How long a step may take before it is cancelled and all who wait for it are told so.",
     1000000, INT64_MAX},
    {"verbose", DP_OPTION_FLAG, NULL, NULL, "Say more.", 0, 0},
    {"peer-link", DP_OPTION_FLAG, "true", NULL, "Do not use the peer link.", 0, 0},
    {"a-very-long-name-of-an-option", DP_OPTION_STRING, NULL, "SOMETHING", "Help.", 0, 0},
    {NULL},
};

#define PARSE(options, ...)                                                                        \
  dp_options_parse(table, (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)),                 \
                   (char *[]){__VA_ARGS__}, 1, options)

static void defaults_are_there(void **state) {
  (void)state;
  dp_options *options;
  assert_null(PARSE(&options, "program"));
  assert_int_equal(dp_options_int(options, "port"), 2222);
  assert_null(dp_options_string(options, "job"));
  assert_true(dp_options_int(options, "step-timeout") == INT64_C(10000000000));
  assert_false(dp_options_flag(options, "verbose"));
  assert_true(dp_options_flag(options, "peer-link"));
  assert_false(dp_options_is_set(options, "port"));
  assert_false(dp_options_help_wanted(options));
  int count = 9;
  dp_options_rest(options, &count);
  assert_int_equal(count, 0);
  dp_options_destroy(options);
  dp_options_destroy(NULL);
}

static void every_form_is_understood(void **state) {
  (void)state;
  dp_options *options;
  assert_null(PARSE(&options, "program", "serve", "--port", "80", "--port=81",
                    "--job=", "--verbose", "--no-peer-link", "--step-timeout", "5m", "-", "-h",
                    "-7", "--", "--job", "x"));
  assert_int_equal(dp_options_int(options, "port"), 81);
  assert_true(dp_options_is_set(options, "port"));
  assert_string_equal(dp_options_string(options, "job"), "");
  assert_true(dp_options_flag(options, "verbose"));
  assert_false(dp_options_flag(options, "peer-link"));
  assert_true(dp_options_is_set(options, "peer-link"));
  assert_true(dp_options_int(options, "step-timeout") == INT64_C(300) * 1000000000);
  assert_true(dp_options_help_wanted(options));
  int count;
  char **rest = dp_options_rest(options, &count);
  assert_int_equal(count, 5);
  assert_string_equal(rest[0], "serve");
  assert_string_equal(rest[1], "-");
  assert_string_equal(rest[2], "-7");
  assert_string_equal(rest[3], "--job");
  assert_string_equal(rest[4], "x");
  dp_options_destroy(options);
}

static void assert_says(dp_status *status, const char *part) {
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  if (strstr(dp_status_message(status), part) == NULL)
    fail_msg("'%s' does not say '%s'", dp_status_message(status), part);
  dp_status_release(status);
}

static void mistakes_are_explained(void **state) {
  (void)state;
  dp_options *options = NULL;
  assert_says(PARSE(&options, "p", "--prot", "3"), "did you mean --port?");
  assert_says(PARSE(&options, "p", "--job-name", "3"), "unknown option --job-name");
  assert_says(PARSE(&options, "p", "--step"), "did you mean --step-timeout?");
  assert_says(PARSE(&options, "p", "--no-peer-lnk"), "did you mean --no-peer-link?");
  assert_says(PARSE(&options, "p", "--zebra"), "--help lists all");
  assert_says(PARSE(&options, "p", "--no-port"), "unknown option --no-port");
  assert_says(PARSE(&options, "p", "-p"), "unknown option -p");
  assert_says(PARSE(&options, "p", "--port"), "--port wants a value: --port PORT");
  assert_says(PARSE(&options, "p", "--port", "--verbose"), "--port wants a value");
  assert_says(PARSE(&options, "p", "--port", "8o"), "whole number, not '8o'");
  assert_says(PARSE(&options, "p", "--port=70000"), "from 0 to 65535");
  assert_says(PARSE(&options, "p", "--step-timeout=5"), "200ms");
  assert_says(PARSE(&options, "p", "--step-timeout=0"), "out of range");
  assert_says(PARSE(&options, "p", "--step-timeout=9999999999h"), "duration");
  assert_says(PARSE(&options, "p", "--verbose=yes"), "use --verbose or --no-verbose");
  assert_says(PARSE(&options, "p", "--no-verbose=1"), "takes no value");
  assert_null(options);
}

static void help_is_aligned_and_wrapped(void **state) {
  (void)state;
  FILE *file = tmpfile();
  assert_non_null(file);
  dp_options_print_help(table, file);
  fseek(file, 0, SEEK_SET);
  char text[4096];
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  const char *expected =
      "  --port PORT          Port to listen on; 0 takes a free one. (default: 2222)\n"
      "  --job NAME           Name of this task's job in the cluster.\n"
      "  --step-timeout TIME  How long a step may take before it is cancelled and all\n"
      "                       who wait for it are told so. (default: 10s)\n"
      "  --verbose            Say more.\n"
      "  --no-peer-link       Do not use the peer link.\n"
      "  --a-very-long-name-of-an-option SOMETHING\n"
      "                       Help.\n"
      "  -h, --help           Show this help and exit.\n";
  assert_string_equal(text, expected);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_are_there),
      cmocka_unit_test(every_form_is_understood),
      cmocka_unit_test(mistakes_are_explained),
      cmocka_unit_test(help_is_aligned_and_wrapped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
