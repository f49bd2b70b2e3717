/* From pattern to tree, by recursive descent. Trees live in an arena that is freed once the program
 * is compiled. Patterns come from clients, so the depth of groups, the product of nested counts and
 * the sizes of sets are bounded before memory is allocated. */
#include "kernels/text/regex_tree_internal.h"

#include <string.h>

#define MAX_LENGTH (1 << 20)
#define MAX_DEPTH 1000
#define MAX_REPEAT 1000    /* also of nested repetitions together, as in RE2 */
#define MAX_RANGES 1000000 /* of all sets together */

typedef dp_regex_node node;

typedef struct flags {
  bool folds, multiline, dot_newline, swaps_lazy;
} flags;

typedef struct parser {
  dp_arena *arena;
  dp_regex *regex;
  dp_view whole;
  const char *at, *end;
  flags flags;
  int depth;
  size_t ranges; /* of all sets so far */
  dp_status *failure;
} parser;

/* ---- Helpers ---- */
/* The message ends with the text from `from` to the parser's position; NULL: no such text. */
static node *fail(parser *p, const char *what, const char *from) {
  if (!p->failure && from)
    p->failure = DP_INVALID("%s: %.*s", what, (int)(p->at - from), from);
  else if (!p->failure)
    p->failure = DP_INVALID("%s", what);
  return NULL;
}

static node *fail_size(parser *p) {
  return fail(p, "pattern too large - compile failed", NULL);
}

static node *make(parser *p, dp_regex_kind kind) {
  node *made = DP_ARENA_NEW(p->arena, node);
  made->kind = kind;
  made->copies = 1;
  return made;
}

static node *pair(parser *p, dp_regex_kind kind, node *a, node *b) {
  node *made = make(p, kind);
  made->a = a;
  made->b = b;
  made->copies = b && b->copies > a->copies ? b->copies : a->copies;
  return made;
}

static node *assertion(parser *p, dp_regex_assertion which) {
  node *made = make(p, ASSERTION);
  made->index = which;
  return made;
}

static bool looking_at(const parser *p, const char *text) {
  size_t length = strlen(text);
  return (size_t)(p->end - p->at) >= length && memcmp(p->at, text, length) == 0;
}

/* Takes over the set. */
static node *set_node(parser *p, dp_regex_set *set, bool negated) {
  dp_regex_set_finish(set, negated);
  p->ranges += set->count;
  if (p->ranges > MAX_RANGES || p->regex->sets.count >= DP_REGEX_MAX_PROGRAM) {
    DP_ARRAY_FREE(set);
    return fail_size(p);
  }
  node *made = make(p, SET);
  made->index = (int32_t)p->regex->sets.count;
  DP_ARRAY_PUSH(&p->regex->sets, *set);
  return made;
}

static node *literal(parser *p, uint32_t point) {
  dp_regex_set set = {0};
  dp_regex_set_add(&set, point, point, p->flags.folds);
  return set_node(p, &set, false);
}

static bool next_point(parser *p, uint32_t *point_out) {
  dp_view rest = {p->at, (size_t)(p->end - p->at)};
  bool is_valid = dp_utf8_next(&rest, point_out);
  p->at = rest.data;
  if (!is_valid && !p->failure)
    p->failure = DP_INVALID("invalid UTF-8");
  return is_valid;
}

/* ---- Escapes that stand for one code point ---- */
static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_escape(parser *p, uint32_t *point_out) {
  uint32_t point = 0;
  int digits = 0;
  bool is_braced = p->at < p->end && *p->at == '{';
  p->at += is_braced;
  while (p->at < p->end && hex_digit(*p->at) >= 0 && (is_braced || digits < 2)) {
    point = point << 4 | (uint32_t)hex_digit(*p->at++);
    if (++digits > 8 || point > 0x10ffff)
      return false;
  }
  if (is_braced && (p->at == p->end || *p->at++ != '}'))
    return false;
  *point_out = point;
  return is_braced ? digits > 0 : digits == 2;
}

static bool octal_escape(parser *p, char first, uint32_t *point_out) {
  bool has_more = p->at < p->end && *p->at >= '0' && *p->at <= '7';
  if (first != '0' && !has_more)
    return false; /* a back reference */
  uint32_t point = (uint32_t)(first - '0');
  for (int i = 0; i < 2 && p->at < p->end && *p->at >= '0' && *p->at <= '7'; ++i)
    point = point << 3 | (uint32_t)(*p->at++ - '0');
  *point_out = point;
  return true;
}

/* Parses what follows a backslash. */
static bool simple_escape(parser *p, uint32_t *point_out) {
  static const char names[] = "afnrtv", values[] = "\a\f\n\r\t\v";
  const char *start = p->at - 1;
  if (p->at == p->end) {
    fail(p, "trailing \\", NULL);
    return false;
  }
  char c = *p->at++;
  const char *named = strchr(names, c);
  bool is_alphanumeric =
      (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
  bool fits = true;
  if (c && named)
    *point_out = (uint8_t)values[named - names];
  else if (c == 'x')
    fits = hex_escape(p, point_out);
  else if (c >= '0' && c <= '7')
    fits = octal_escape(p, c, point_out);
  else if ((uint8_t)c < 128 && !is_alphanumeric)
    *point_out = (uint8_t)c;
  else
    fits = false;
  if (!fits)
    fail(p, "invalid escape sequence", start);
  return fits;
}

/* Parses "L" or "{Greek}" after \p or \P. */
static bool unicode_class(parser *p, dp_regex_set *set, bool negated, const char *start) {
  dp_view name = {p->at, p->at < p->end};
  if (p->at < p->end && *p->at == '{') {
    const char *close = memchr(p->at, '}', (size_t)(p->end - p->at));
    if (close)
      name = (dp_view){p->at + 1, (size_t)(close - p->at - 1)};
    p->at = close ? close + 1 : p->end;
  } else if (p->at < p->end) {
    ++p->at;
  }
  if (dp_regex_set_add_unicode(set, name, p->flags.folds, negated))
    return true;
  fail(p, "invalid character class range", start);
  return false;
}

/* ---- Classes ---- */
/* A named class within brackets: [:alpha:], \d, \pL. False when there is none here, or after a
 * failure. */
static bool class_in_class(parser *p, dp_regex_set *set) {
  const char *start = p->at;
  if (looking_at(p, "[:")) {
    const char *close = memmem(p->at + 2, (size_t)(p->end - p->at) - 2, ":]", 2);
    if (!close)
      return false;
    bool negated = p->at[2] == '^';
    dp_view name = {p->at + 2 + negated, (size_t)(close - p->at) - 2 - negated};
    p->at = close + 2;
    if (dp_regex_set_add_posix(set, name, p->flags.folds, negated))
      return true;
    fail(p, "invalid character class range", start);
    return false;
  }
  if (*p->at != '\\' || p->at + 1 == p->end)
    return false;
  char letter = p->at[1];
  p->at += 2;
  if (letter == 'p' || letter == 'P')
    return unicode_class(p, set, letter == 'P', start);
  if (dp_regex_set_add_perl(set, letter, p->flags.folds))
    return true;
  p->at = start;
  return false;
}

static bool class_point(parser *p, uint32_t *point_out) {
  if (*p->at != '\\')
    return next_point(p, point_out);
  ++p->at;
  return simple_escape(p, point_out);
}

/* An item of a bracket: a named class, a code point, or a range of code points. */
static bool class_item(parser *p, dp_regex_set *set) {
  const char *start = p->at;
  uint32_t low, high;
  if (class_in_class(p, set))
    return true;
  if (p->failure || !class_point(p, &low))
    return false;
  high = low;
  if (p->at + 1 < p->end && p->at[0] == '-' && p->at[1] != ']') {
    ++p->at;
    if (!class_point(p, &high))
      return false;
    if (high < low) {
      fail(p, "invalid character class range", start);
      return false;
    }
  }
  dp_regex_set_add(set, low, high, p->flags.folds);
  return true;
}

static node *parse_class(parser *p) {
  const char *start = p->at++;
  dp_regex_set set = {0};
  bool negated = p->at < p->end && *p->at == '^';
  p->at += negated;
  for (bool is_first = true; p->at < p->end && (*p->at != ']' || is_first); is_first = false)
    if (!class_item(p, &set) || set.count > MAX_RANGES) {
      DP_ARRAY_FREE(&set);
      return fail_size(p); /* the first failure stays */
    }
  if (p->at == p->end) {
    DP_ARRAY_FREE(&set);
    return fail(p, "missing ]", start);
  }
  ++p->at;
  return set_node(p, &set, negated);
}

/* ---- Escapes outside of classes ---- */
static node *parse_escape(parser *p) {
  const char *start = p->at++;
  char letter = p->at < p->end ? *p->at : '\0';
  dp_regex_set set = {0};
  uint32_t point;
  switch (letter) {
  case 'A':
    ++p->at;
    return assertion(p, DP_REGEX_BEGIN_TEXT);
  case 'z':
    ++p->at;
    return assertion(p, DP_REGEX_END_TEXT);
  case 'b':
    ++p->at;
    return assertion(p, DP_REGEX_WORD);
  case 'B':
    ++p->at;
    return assertion(p, DP_REGEX_NOT_WORD);
  case 'p':
  case 'P':
    ++p->at;
    if (unicode_class(p, &set, letter == 'P', start))
      return set_node(p, &set, false);
    DP_ARRAY_FREE(&set);
    return NULL;
  default:
    break;
  }
  if (letter && dp_regex_set_add_perl(&set, letter, p->flags.folds)) {
    ++p->at;
    return set_node(p, &set, false);
  }
  return simple_escape(p, &point) ? literal(p, point) : NULL;
}

/* ---- Groups ---- */
static node *parse_alternation(parser *p);

/* Flags such as "i-s", up to ")" or ":". */
static bool parse_flags(parser *p, const char *start) {
  bool value = true, has_minus = false, has_letter = false;
  for (; p->at < p->end && *p->at != ')' && *p->at != ':'; ++p->at) {
    switch (*p->at) {
    case '-':
      if (has_minus)
        goto bad;
      value = false;
      has_minus = true;
      has_letter = false;
      continue;
    case 'i':
      p->flags.folds = value;
      break;
    case 'm':
      p->flags.multiline = value;
      break;
    case 's':
      p->flags.dot_newline = value;
      break;
    case 'U':
      p->flags.swaps_lazy = value;
      break;
    default:
      goto bad;
    }
    has_letter = true;
  }
  if (p->at < p->end && (has_letter || !has_minus))
    return true;
bad:
  if (p->at < p->end) {
    uint32_t ignored;
    next_point(p, &ignored);
  }
  fail(p, "invalid perl operator", start);
  return false;
}

/* "name>" after "(?P<". */
static bool parse_name(parser *p, const char *start) {
  const char *name = p->at;
  while (p->at < p->end && ((*p->at >= '0' && *p->at <= '9') ||
                            ((*p->at | 0x20) >= 'a' && (*p->at | 0x20) <= 'z') || *p->at == '_'))
    ++p->at;
  if (p->at < p->end && *p->at == '>' && p->at > name) {
    ++p->at;
    return true;
  }
  const char *close = memchr(p->at, '>', (size_t)(p->end - p->at));
  p->at = close ? close + 1 : p->end;
  fail(p, "invalid named capture group", start);
  return false;
}

static node *parse_group(parser *p) {
  const char *start = p->at++;
  flags outer = p->flags;
  int32_t index = -1;
  if (looking_at(p, "?P<")) {
    p->at += 3;
    if (!parse_name(p, start))
      return NULL;
    index = ++p->regex->groups;
  } else if (p->at < p->end && *p->at == '?') {
    ++p->at;
    if (!parse_flags(p, start))
      return NULL;
    if (*p->at++ == ')')
      return make(p, EMPTY); /* the flags hold for the rest of the enclosing group */
  } else {
    index = ++p->regex->groups;
  }
  if (++p->depth > MAX_DEPTH)
    return fail(p, "nesting depth exceeded", start);
  node *group = make(p, GROUP);
  group->index = index;
  group->a = parse_alternation(p);
  --p->depth;
  if (!group->a)
    return NULL;
  group->copies = group->a->copies;
  if (p->at == p->end)
    return fail(p, "missing )", p->whole.data);
  ++p->at;
  p->flags = outer;
  return group;
}

/* ---- Repetitions ---- */
/* "{2,5}". Anything else is literal text: returns false and takes nothing. */
static bool parse_counts(parser *p, int32_t *minimum, int32_t *maximum) {
  const char *at = p->at + 1;
  int64_t numbers[2] = {-1, -1};
  for (int i = 0; i < 2; ++i) {
    for (; at < p->end && *at >= '0' && *at <= '9'; ++at) {
      numbers[i] = (numbers[i] < 0 ? 0 : numbers[i]) * 10 + (*at - '0');
      numbers[i] = numbers[i] > 100000 ? 100000 : numbers[i];
    }
    if (i == 0 && at < p->end && *at == ',')
      ++at;
    else if (i == 0) {
      numbers[1] = numbers[0];
      break;
    }
  }
  if (numbers[0] < 0 || at == p->end || *at != '}')
    return false;
  p->at = at + 1;
  *minimum = (int32_t)numbers[0];
  *maximum = (int32_t)numbers[1];
  return true;
}

static bool is_repetition(const parser *p) {
  return p->at < p->end && (*p->at == '*' || *p->at == '+' || *p->at == '?');
}

static node *parse_repetition(parser *p, node *repeated) {
  const char *first = p->at;
  for (bool is_second = false; p->at < p->end; is_second = true) {
    const char *start = p->at;
    int32_t minimum = 0, maximum = -1;
    if (is_repetition(p)) {
      char c = *p->at++;
      minimum = c == '+';
      maximum = c == '?' ? 1 : -1;
    } else if (*p->at != '{' || !parse_counts(p, &minimum, &maximum)) {
      return repeated;
    }
    if (is_second)
      return fail(p, "bad repetition operator", first);
    if (minimum > MAX_REPEAT || maximum > MAX_REPEAT || (maximum >= 0 && maximum < minimum))
      return fail(p, "invalid repetition size", start);
    node *made = pair(p, REPEAT, repeated, NULL);
    made->minimum = minimum;
    made->maximum = maximum;
    int32_t count = maximum < 0 ? minimum : maximum;
    made->copies = repeated->copies * (count > 1 ? count : 1);
    if (made->copies > MAX_REPEAT)
      return fail(p, "invalid repetition size", start);
    made->is_lazy = p->flags.swaps_lazy;
    if (p->at < p->end && *p->at == '?') {
      ++p->at;
      made->is_lazy = !made->is_lazy;
    }
    repeated = made;
  }
  return repeated;
}

/* ---- The rest of the grammar ---- */
static node *parse_dot(parser *p) {
  dp_regex_set set = {0};
  ++p->at;
  if (p->flags.dot_newline) {
    dp_regex_set_add(&set, 0, 0x10ffff, false);
  } else {
    dp_regex_set_add(&set, 0, '\n' - 1, false);
    dp_regex_set_add(&set, '\n' + 1, 0x10ffff, false);
  }
  return set_node(p, &set, false);
}

static node *parse_atom(parser *p) {
  const char *start = p->at;
  uint32_t point;
  switch (*p->at) {
  case '(':
    return parse_group(p);
  case '[':
    return parse_class(p);
  case '\\':
    return parse_escape(p);
  case '.':
    return parse_dot(p);
  case '^':
    ++p->at;
    return assertion(p, p->flags.multiline ? DP_REGEX_BEGIN_LINE : DP_REGEX_BEGIN_TEXT);
  case '$':
    ++p->at;
    return assertion(p, p->flags.multiline ? DP_REGEX_END_LINE : DP_REGEX_END_TEXT);
  case '*':
  case '+':
  case '?':
    ++p->at;
    return fail(p, "no argument for repetition operator", start);
  default:
    return next_point(p, &point) ? literal(p, point) : NULL;
  }
}

static node *append(parser *p, node *list, node *atom) {
  return list->kind == EMPTY ? atom : pair(p, CONCAT, list, atom);
}

/* Quoted text between \Q and \E. Appends all code points but the last, because a following
 * repetition applies to the last one only. *last_out is NULL when nothing is quoted. */
static node *parse_quoted(parser *p, node *list, node **last_out) {
  uint32_t point;
  *last_out = NULL;
  while (p->at < p->end && !looking_at(p, "\\E")) {
    if (*last_out)
      list = append(p, list, *last_out);
    *last_out = next_point(p, &point) ? literal(p, point) : NULL;
    if (!*last_out)
      return NULL;
  }
  if (p->at < p->end)
    p->at += 2;
  return list;
}

static node *parse_sequence(parser *p) {
  node *list = make(p, EMPTY);
  while (p->at < p->end && *p->at != '|' && *p->at != ')') {
    node *atom;
    if (looking_at(p, "\\Q")) {
      p->at += 2;
      list = parse_quoted(p, list, &atom);
      if (!list)
        return NULL;
    } else {
      atom = parse_atom(p);
      if (!atom)
        return NULL;
    }
    if (!atom || atom->kind == EMPTY)
      continue; /* flags, or nothing quoted: nothing that could be repeated */
    atom = parse_repetition(p, atom);
    if (!atom)
      return NULL;
    list = append(p, list, atom);
  }
  return list;
}

static node *parse_alternation(parser *p) {
  node *list = parse_sequence(p);
  while (list && p->at < p->end && *p->at == '|') {
    ++p->at;
    node *next = parse_sequence(p);
    list = next ? pair(p, ALTERNATE, list, next) : NULL;
  }
  return list;
}

dp_status *dp_regex_parse(dp_view pattern, dp_regex *regex, dp_arena *arena,
                          const dp_regex_node **tree_out) {
  if (!pattern.data)
    pattern.data = "";
  parser p = {.arena = arena,
              .regex = regex,
              .whole = pattern,
              .at = pattern.data,
              .end = pattern.data + pattern.length};
  const node *tree = pattern.length > MAX_LENGTH ? fail_size(&p) : parse_alternation(&p);
  if (tree && p.at < p.end) {
    p.at = p.end;
    fail(&p, "unexpected )", pattern.data);
  }
  if (!p.failure)
    *tree_out = tree;
  return p.failure;
}
