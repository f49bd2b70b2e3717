/* Regular expressions in RE2's syntax, matched in time linear in the text.
 *
 * A pattern is compiled to a small program over code points (UTF-8); matching runs all its threads
 * side by side, earlier alternatives before later ones, as Perl would choose. A compiled program
 * never changes: any number of threads may match with it. Not supported: \C (a single byte), which
 * is refused when compiled. */
#ifndef DP_KERNELS_TEXT_REGEX_H
#define DP_KERNELS_TEXT_REGEX_H

#include "kernels/text/unicode.h"

typedef struct dp_regex dp_regex;

#define DP_REGEX_GROUPS 10 /* whose positions are kept: the whole match and \1 .. \9 */

/* INVALID_ARGUMENT says what is wrong with the pattern, in RE2's words. */
DP_MUST_USE dp_status *dp_regex_compile(dp_view pattern, dp_regex **regex_out);
void dp_regex_destroy(dp_regex *regex);

/* The text of each group; NULL data for a group that took no part in the match. */
typedef struct dp_regex_match {
  dp_view groups[DP_REGEX_GROUPS];
} dp_regex_match;

/* The leftmost match at or after `from`. With `whole`, only a match of the whole text counts. */
bool dp_regex_find(const dp_regex *regex, dp_view text, size_t from, bool whole,
                   dp_regex_match *match_out);
/* Replaces the first match, or all that do not overlap, by `rewrite`, in which \0 .. \9 stand for
 * groups. As in RE2, a rewrite that names a group that does not exist leaves the text as it is. */
void dp_regex_replace(const dp_regex *regex, dp_view text, dp_view rewrite, bool all, dp_text *out);

#endif
