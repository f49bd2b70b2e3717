/* Matching. If the pattern has tables (regex_table.c), the text is ASCII and no groups are wanted,
 * the tables do it. Otherwise all threads of the program advance over the text together, one code
 * point at a time. The list of threads is ordered by priority: the first that matches wins, and
 * threads behind it are dropped. Memory is proportional to the program, time to program times
 * text. */
#include "kernels/text/regex_program_internal.h"

#include <string.h>

#define SLOTS (2 * DP_REGEX_GROUPS)

typedef struct thread_list {
  int32_t *threads;      /* instructions, by priority */
  const char **captures; /* one row of positions per thread */
  int32_t count;
} thread_list;

/* The memory that one thread of the process needs for any number of searches in one text. */
typedef struct matcher {
  const dp_regex *regex;
  dp_view text;
  bool uses_table; /* the fields below are not allocated */
  int32_t slots;   /* positions to keep; 0 when only the answer matters */
  uint64_t *mark;  /* per instruction: the step at which it was added last */
  uint64_t step;
  int32_t *stack; /* for following what takes no text: instruction, or a slot to put back */
  const char **saved;
  thread_list lists[2];
} matcher;

static bool is_word(const char *at) {
  return (*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') ||
         *at == '_';
}

static bool holds(const matcher *m, int32_t assertion, const char *at) {
  const char *begin = m->text.data, *end = m->text.data + m->text.length;
  bool before = at > begin && is_word(at - 1), after = at < end && is_word(at);
  switch (assertion) {
  case DP_REGEX_BEGIN_TEXT:
    return at == begin;
  case DP_REGEX_END_TEXT:
    return at == end;
  case DP_REGEX_BEGIN_LINE:
    return at == begin || at[-1] == '\n';
  case DP_REGEX_END_LINE:
    return at == end || *at == '\n';
  case DP_REGEX_WORD:
    return before != after;
  default:
    return before == after;
  }
}

/* Adds the thread at instruction `pc`, and all threads that it leads to without consuming text.
 * Negative entries on the stack restore a slot to its former value. */
static void add_thread(matcher *m, thread_list *list, int32_t pc, const char *at,
                       const char **captures) {
  int32_t depth = 0, saves = 0;
  m->stack[depth++] = pc;
  while (depth > 0) {
    pc = m->stack[--depth];
    if (pc < 0) {
      captures[-pc - 1] = m->saved[--saves];
      continue;
    }
    if (m->mark[pc] == m->step)
      continue;
    m->mark[pc] = m->step;
    const dp_regex_instruction *instruction = &m->regex->program.items[pc];
    switch (instruction->op) {
    case DP_REGEX_SPLIT:
      m->stack[depth++] = instruction->other;
      m->stack[depth++] = instruction->next;
      break;
    case DP_REGEX_ASSERT:
      if (holds(m, instruction->set, at))
        m->stack[depth++] = instruction->next;
      break;
    case DP_REGEX_SAVE:
      if (instruction->set < m->slots) {
        m->saved[saves++] = captures[instruction->set];
        m->stack[depth++] = -instruction->set - 1;
        captures[instruction->set] = at;
      }
      m->stack[depth++] = instruction->next;
      break;
    default:
      if (m->slots > 0)
        memcpy(list->captures + list->count * m->slots, captures,
               sizeof(char *) * (size_t)m->slots);
      list->threads[list->count++] = pc;
    }
  }
}

/* Advances all threads over the code point from `at` to `next`. True when a thread matched at `at`;
 * its captures are in `best`. */
static bool step_threads(matcher *m, thread_list *now, thread_list *after, uint32_t point,
                         bool has_point, const char *next, bool whole, const char *at,
                         const char **best) {
  after->count = 0;
  ++m->step;
  for (int32_t i = 0; i < now->count; ++i) {
    const dp_regex_instruction *instruction = &m->regex->program.items[now->threads[i]];
    const char **captures = now->captures + i * m->slots;
    if (instruction->op == DP_REGEX_MATCH) {
      if (whole && at != m->text.data + m->text.length)
        continue;
      memcpy(best, captures, sizeof(char *) * (size_t)m->slots);
      best[1] = at;
      return true;
    }
    if (has_point && dp_regex_set_has(&m->regex->sets.items[instruction->set], point))
      add_thread(m, after, instruction->next, next, captures);
  }
  return false;
}

static bool run(matcher *m, size_t from, bool whole, const char **best) {
  const char *at = m->text.data + from, *end = m->text.data + m->text.length;
  const char *fresh[SLOTS];
  bool matched = false;
  thread_list *now = &m->lists[0], *after = &m->lists[1];
  now->count = 0;
  ++m->step;
  for (;;) {
    /* A match that was found already starts further left, so no new threads start. */
    if (!matched && (!whole || at == m->text.data)) {
      memset(fresh, 0, sizeof(fresh));
      fresh[0] = at;
      add_thread(m, now, m->regex->start, at, fresh);
    }
    if (now->count == 0 && (matched || whole))
      break;
    dp_view rest = {at, (size_t)(end - at)};
    uint32_t point = 0;
    bool has_point = at < end;
    /* A byte that is not valid UTF-8 gets a number above all code points, which only "any"
     * matches. */
    if (has_point && !dp_utf8_next(&rest, &point))
      point = UINT32_MAX;
    matched = step_threads(m, now, after, point, has_point, rest.data, whole, at, best) || matched;
    thread_list *kept = now;
    now = after;
    after = kept;
    if (!has_point)
      break;
    at = rest.data;
  }
  return matched;
}

static void matcher_init(matcher *m, const dp_regex *regex, dp_view text, bool wants_groups) {
  size_t size = regex->program.count;
  int groups = regex->groups < DP_REGEX_GROUPS ? regex->groups : DP_REGEX_GROUPS - 1;
  *m = (matcher){.regex = regex, .text = text, .slots = wants_groups ? 2 * groups + 2 : 0};
  if (!text.data)
    m->text.data = "";
  m->mark = DP_NEW_ARRAY(uint64_t, size);
  m->stack = DP_NEW_ARRAY(int32_t, 3 * size + 4);
  m->saved = DP_NEW_ARRAY(const char *, size + 1);
  for (int i = 0; i < 2; ++i) {
    m->lists[i].threads = DP_NEW_ARRAY(int32_t, size);
    m->lists[i].captures = DP_NEW_ARRAY(const char *, size *(size_t)m->slots + 1);
  }
}

static void matcher_deinit(matcher *m) {
  for (int i = 0; i < 2; ++i) {
    dp_free(m->lists[i].threads);
    dp_free(m->lists[i].captures);
  }
  dp_free(m->mark);
  dp_free(m->stack);
  dp_free(m->saved);
}

static bool matcher_find(matcher *m, size_t from, bool whole, dp_regex_match *match_out) {
  if (m->uses_table) {
    int found = dp_regex_table_find(m->regex->first, m->text, from, &match_out->groups[0]);
    if (found >= 0)
      return found;
    matcher_init(m, m->regex, m->text, true); /* for the rest of the text */
  }
  const char *best[SLOTS] = {0};
  if (!run(m, from, whole, best))
    return false;
  for (int i = 0; match_out && i < DP_REGEX_GROUPS; ++i) {
    bool took_part = best[2 * i] && best[2 * i + 1];
    match_out->groups[i] = took_part
                               ? (dp_view){best[2 * i], (size_t)(best[2 * i + 1] - best[2 * i])}
                               : (dp_view){NULL, 0};
  }
  return true;
}

bool dp_regex_find(const dp_regex *regex, dp_view text, size_t from, bool whole,
                   dp_regex_match *match_out) {
  if (whole && !match_out && regex->whole && dp_regex_is_ascii(text))
    return dp_regex_table_matches(regex->whole, text);
  matcher m;
  matcher_init(&m, regex, text, match_out != NULL);
  bool found = matcher_find(&m, from, whole, match_out);
  matcher_deinit(&m);
  return found;
}

/* ---- Replacing ---- */
/* The largest group number in the rewrite. */
static int largest_group(dp_view rewrite) {
  int largest = 0;
  for (size_t i = 0; i + 1 < rewrite.length; ++i) {
    char c = rewrite.data[i + 1];
    if (rewrite.data[i] == '\\' && ++i && c >= '0' && c <= '9' && c - '0' > largest)
      largest = c - '0';
  }
  return largest;
}

/* Appends the rewrite. False at an invalid escape; the part before it is appended. */
static bool append_rewrite(dp_view rewrite, const dp_regex_match *match, dp_text *out) {
  for (size_t i = 0; i < rewrite.length; ++i) {
    char c = rewrite.data[i];
    if (c == '\\') {
      c = ++i < rewrite.length ? rewrite.data[i] : '\0';
      if (c >= '0' && c <= '9') {
        dp_view group = match->groups[c - '0'];
        dp_text_append(out, group.data ? group.data : "", group.length);
        continue;
      }
      if (c != '\\')
        return false;
    }
    dp_text_add_char(out, c);
  }
  return true;
}

/* Copies the code point (or invalid byte) at `at` to the output. */
static size_t copy_one(dp_view text, size_t at, dp_text *out) {
  dp_view rest = {text.data + at, text.length - at};
  uint32_t point;
  dp_utf8_next(&rest, &point);
  size_t taken = text.length - at - rest.length;
  dp_text_append(out, text.data + at, taken);
  return at + taken;
}

/* Replaces all matches that do not overlap. As in RE2, an invalid rewrite is used up to its
 * fault. */
static void replace_all(matcher *m, dp_view rewrite, dp_text *out) {
  dp_view text = m->text;
  size_t at = 0;
  const char *last_end = NULL;
  dp_regex_match match;
  while (at <= text.length && matcher_find(m, at, false, &match)) {
    size_t begin = (size_t)(match.groups[0].data - text.data), length = match.groups[0].length;
    dp_text_append(out, text.data + at, begin - at);
    at = begin;
    /* An empty match directly behind a match does not count. */
    if (length == 0 && match.groups[0].data == last_end) {
      if (at == text.length)
        break;
      at = copy_one(text, at, out);
      continue;
    }
    append_rewrite(rewrite, &match, out);
    at = begin + length;
    last_end = text.data + at;
  }
  if (at < text.length)
    dp_text_append(out, text.data + at, text.length - at);
}

/* Replaces the first match; an invalid rewrite leaves the text as it is. */
static void replace_first(matcher *m, dp_view rewrite, dp_text *out) {
  dp_text replaced = {0};
  dp_regex_match match;
  dp_view text = m->text, found = {text.data, 0};
  if (matcher_find(m, 0, false, &match) && append_rewrite(rewrite, &match, &replaced))
    found = match.groups[0];
  else
    dp_text_clear(&replaced);
  size_t begin = (size_t)(found.data - text.data), end = begin + found.length;
  dp_text_append(out, text.data, begin);
  dp_text_append(out, dp_text_string(&replaced), replaced.length);
  dp_text_append(out, text.data + end, text.length - end);
  dp_text_deinit(&replaced);
}

void dp_regex_replace(const dp_regex *regex, dp_view text, dp_view rewrite, bool all,
                      dp_text *out) {
  matcher m = {.regex = regex, .text = text};
  int groups = largest_group(rewrite);
  if (groups > regex->groups) {
    dp_text_append(out, text.data ? text.data : "", text.length);
    return;
  }
  if (!text.data)
    m.text.data = "";
  m.uses_table = groups == 0 && regex->first && dp_regex_is_ascii(text);
  if (!m.uses_table)
    matcher_init(&m, regex, text, true);
  if (all)
    replace_all(&m, rewrite, out);
  else
    replace_first(&m, rewrite, out);
  matcher_deinit(&m);
}
