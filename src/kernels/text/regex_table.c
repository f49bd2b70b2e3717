/* State tables for ASCII text. The sets of threads that a program can be in are computed once, when
 * the pattern is compiled; matching then takes one lookup per byte. Only small patterns without
 * assertions have tables; regex_match.c handles all other patterns and texts. A state is a list of
 * threads by priority, as there. Tables never change once they are made. */
#include "kernels/text/regex_program_internal.h"

#include <string.h>

enum { MOST_THREADS = 64, MOST_INSTRUCTIONS = 256, MOST_SETS = 64, ASCII = 128 };

typedef struct state_threads {
  int32_t count;
  uint8_t threads[MOST_THREADS];
} state_threads;

typedef struct builder {
  const dp_regex *regex;
  bool whole;
  dp_regex_table *table;
  uint64_t class_sets[ASCII]; /* per class: the sets that contain its bytes */
  state_threads states[DP_REGEX_MOST_STATES];
} builder;

/* ---- Classes of bytes: bytes of one class are in the same sets ---- */
static uint64_t sets_of(const dp_regex *regex, uint32_t byte) {
  uint64_t sets = 0;
  for (size_t i = 0; i < regex->sets.count; ++i)
    sets |= (uint64_t)dp_regex_set_has(&regex->sets.items[i], byte) << i;
  return sets;
}

static void find_classes(builder *builder) {
  dp_regex_table *table = builder->table;
  for (uint32_t byte = 0; byte < ASCII; ++byte) {
    uint64_t sets = sets_of(builder->regex, byte);
    int class = 0;
    while (class < table->class_count && builder->class_sets[class] != sets)
      ++class;
    if (class == table->class_count)
      builder->class_sets[table->class_count++] = sets;
    table->class_of[byte] = (uint8_t) class;
  }
}

/* ---- States ---- */
/* Adds the thread at `pc` and the threads that it leads to without consuming text. If the first
 * match counts, threads behind one that has matched are dropped. False when there are too many. */
static bool add_thread(const builder *builder, state_threads *state, bool *seen, int32_t pc) {
  int32_t stack[2 * MOST_INSTRUCTIONS], depth = 0;
  stack[depth++] = pc;
  while (depth > 0) {
    pc = stack[--depth];
    if (seen[pc])
      continue;
    seen[pc] = true;
    const dp_regex_instruction *instruction = &builder->regex->program.items[pc];
    if (instruction->op == DP_REGEX_SPLIT)
      stack[depth++] = instruction->other;
    if (instruction->op == DP_REGEX_SPLIT || instruction->op == DP_REGEX_SAVE) {
      stack[depth++] = instruction->next;
      continue;
    }
    if (state->count == MOST_THREADS)
      return false;
    state->threads[state->count++] = (uint8_t)pc;
  }
  return true;
}

/* Whether the state has matched; drops the threads behind the match that counts. */
static bool finish_state(const builder *builder, state_threads *state) {
  for (int32_t i = 0; i < state->count; ++i)
    if (builder->regex->program.items[state->threads[i]].op == DP_REGEX_MATCH) {
      state->count = builder->whole ? state->count : i + 1;
      return true;
    }
  return false;
}

/* The number of the state with these threads, which may be new; -1 when there are too many
 * states. */
static int number_state(builder *builder, state_threads *state) {
  dp_regex_table *table = builder->table;
  bool accepts = finish_state(builder, state);
  for (int i = 0; i < table->state_count; ++i)
    if (builder->states[i].count == state->count &&
        memcmp(builder->states[i].threads, state->threads, (size_t)state->count) == 0)
      return i;
  if (table->state_count == DP_REGEX_MOST_STATES)
    return -1;
  builder->states[table->state_count] = *state;
  table->accepts[table->state_count] = accepts;
  return table->state_count++;
}

static bool fill_state(builder *builder, int number) {
  const dp_regex *regex = builder->regex;
  for (int class = 0; class < builder->table->class_count; ++class) {
    state_threads after = {0};
    bool seen[MOST_INSTRUCTIONS] = {0};
    for (int32_t i = 0; i < builder->states[number].count; ++i) {
      const dp_regex_instruction *instruction =
          &regex->program.items[builder->states[number].threads[i]];
      bool takes = instruction->op == DP_REGEX_SET &&
                   (builder->class_sets[class] >> instruction->set & 1) != 0;
      if (takes && !add_thread(builder, &after, seen, instruction->next))
        return false;
    }
    int next = number_state(builder, &after);
    if (next < 0)
      return false;
    builder->table->next[number][class] = (uint8_t)next;
  }
  return true;
}

/* State 0 has no threads, state 1 is the start. */
static bool fill_table(builder *builder) {
  state_threads none = {0}, start = {0};
  bool seen[MOST_INSTRUCTIONS] = {0};
  find_classes(builder);
  if (!add_thread(builder, &start, seen, builder->regex->start))
    return false;
  number_state(builder, &none);
  number_state(builder, &start);
  for (int i = 0; i < builder->table->state_count; ++i)
    if (!fill_state(builder, i))
      return false;
  return true;
}

dp_regex_table *dp_regex_table_create(const dp_regex *regex, bool whole) {
  if (regex->program.count > MOST_INSTRUCTIONS || regex->sets.count > MOST_SETS)
    return NULL;
  for (size_t i = 0; i < regex->program.count; ++i)
    if (regex->program.items[i].op == DP_REGEX_ASSERT)
      return NULL;
  builder *builder = dp_calloc(1, sizeof *builder);
  builder->regex = regex;
  builder->whole = whole;
  builder->table = DP_NEW(dp_regex_table);
  dp_regex_table *table = builder->table;
  if (!fill_table(builder)) {
    dp_free(table);
    table = NULL;
  }
  dp_free(builder);
  return table;
}

/* ---- Matching ---- */
bool dp_regex_is_ascii(dp_view text) {
  size_t i = 0;
  for (uint64_t eight; i + 8 <= text.length; i += 8) {
    memcpy(&eight, text.data + i, 8);
    if (eight & 0x8080808080808080u)
      return false;
  }
  for (; i < text.length; ++i)
    if ((uint8_t)text.data[i] >= ASCII)
      return false;
  return true;
}

bool dp_regex_table_matches(const dp_regex_table *table, dp_view text) {
  unsigned state = 1;
  for (size_t i = 0; i < text.length && state != 0; ++i)
    state = table->next[state][table->class_of[(uint8_t)text.data[i]]];
  return table->accepts[state];
}

int dp_regex_table_find(const dp_regex_table *table, dp_view text, size_t from,
                        dp_view *match_out) {
  size_t work = 0, most_work = 8 * text.length + 64;
  for (size_t begin = from; begin <= text.length; ++begin) {
    unsigned state = 1;
    size_t at = begin, end = SIZE_MAX;
    for (;; ++at) {
      if (table->accepts[state])
        end = at;
      if (at == text.length)
        break;
      state = table->next[state][table->class_of[(uint8_t)text.data[at]]];
      if (state == 0)
        break;
    }
    if (end != SIZE_MAX) {
      *match_out = (dp_view){text.data + begin, end - begin};
      return 1;
    }
    work += at - begin;
    if (work > most_work)
      return -1;
  }
  return 0;
}
