/* The ops of the word2vec tutorial: Skipgram draws pairs of words that are near each other in a
 * text file, NegTrain makes one step of gradient descent with negative samples.
 *
 * Pairs are drawn as in TensorFlow, from the same stream: 3000 at a time, from sentences of 1000
 * words, from which frequent words are dropped at random. Words of equal frequency are numbered in
 * the order of their first appearance; TensorFlow leaves that order open. A lock guards the stream.
 * A run that waits for a rare word ends when its step is cancelled. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include "base/map.h"
#include "base/memory.h"
#include "kernels/models/alias_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/variable.h"
#include "storage/file.h"

#define PAIRS_AT_ONCE 3000
#define SENTENCE_WORDS 1000

/* ---- Skipgram: the text ---- */
typedef struct word_count {
  dp_view word;
  int32_t count, place; /* place: in the order of first appearance */
} word_count;

typedef struct text_counts {
  DP_ARRAY(word_count) words;
  DP_ARRAY(int32_t) corpus; /* the text, as places of words */
} text_counts;

typedef struct pair {
  int32_t example, label;
} pair;

typedef struct skipgram {
  int64_t batch, window, min_count;
  float subsample;
  dp_tensor words, counts; /* by number; number 0 stands for all rare words */
  int32_t *corpus;         /* the text, as numbers of words */
  int64_t corpus_size;
  bool has_lock;
  pthread_mutex_t lock;
  dp_random_words random;
  bool is_filled;
  pair pairs[PAIRS_AT_ONCE];
  int next_pair;
  int32_t sentence[SENTENCE_WORDS];
  int at, label, label_end; /* positions in the sentence */
  int64_t corpus_at, words_done;
  int32_t epoch;
} skipgram;

static dp_view next_word(const char **at, const char *end) {
  while (*at < end && isspace((unsigned char)**at))
    ++*at;
  const char *begin = *at;
  while (*at < end && !isspace((unsigned char)**at))
    ++*at;
  return (dp_view){begin, (size_t)(*at - begin)};
}

static void count_words(const char *text, size_t length, text_counts *counts) {
  dp_map *places = dp_map_create(); /* 1 + place */
  dp_view word;
  for (const char *at = text; (word = next_word(&at, text + length)).length > 0;) {
    uintptr_t place = (uintptr_t)dp_map_get_n(places, word.data, word.length);
    if (place == 0) {
      word_count first = {.word = word, .place = (int32_t)counts->words.count};
      DP_ARRAY_PUSH(&counts->words, first);
      place = counts->words.count;
      dp_map_put_n(places, word.data, word.length, (void *)place);
    }
    ++counts->words.items[place - 1].count;
    DP_ARRAY_PUSH(&counts->corpus, (int32_t)(place - 1));
  }
  dp_map_destroy(places);
}

static int compare_counts(const void *a, const void *b) {
  const word_count *x = a, *y = b;
  if (x->count != y->count)
    return x->count > y->count ? -1 : 1;
  return x->place < y->place ? -1 : 1;
}

/* Sorts the words by frequency; numbers[place] is a word's number. */
static dp_status *number_words(skipgram *state, text_counts *counts, int32_t *numbers) {
  size_t frequent = 0;
  qsort(counts->words.items, counts->words.count, sizeof(word_count), compare_counts);
  while (frequent < counts->words.count && counts->words.items[frequent].count >= state->min_count)
    ++frequent;
  dp_shape shape = dp_shape_vector((int64_t)frequent + 1);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_STRING, &shape, &state->words));
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT32, &shape, &state->counts));
  dp_tstring *words = dp_tensor_strings(&state->words);
  int32_t *totals = state->counts.data;
  DP_RETURN_IF_ERROR(dp_tstring_assign(&words[0], "UNK", 3));
  totals[0] = (int32_t)state->corpus_size;
  for (size_t i = 0; i < frequent; ++i) {
    const word_count *word = &counts->words.items[i];
    DP_RETURN_IF_ERROR(dp_tstring_assign(&words[i + 1], word->word.data, word->word.length));
    totals[i + 1] = word->count;
    totals[0] -= word->count;
    numbers[word->place] = (int32_t)i + 1;
  }
  return NULL;
}

static dp_status *take_text(skipgram *state, const char *path, const char *text, size_t length) {
  text_counts counts = {0};
  dp_status *status = NULL;
  count_words(text, length, &counts);
  state->corpus_size = (int64_t)counts.corpus.count;
  if (state->corpus_size < state->window * 10 || state->corpus_size == 0)
    status = DP_INVALID("The text file %s contains too little data: %lld words", path,
                        (long long)state->corpus_size);
  else if (state->corpus_size > INT32_MAX)
    status = DP_INVALID("The text file %s contains too much data: %lld words", path,
                        (long long)state->corpus_size);
  int32_t *numbers = DP_NEW_ARRAY(int32_t, counts.words.count + 1);
  if (!status)
    status = number_words(state, &counts, numbers);
  state->corpus = counts.corpus.items;
  for (int64_t i = 0; i < state->corpus_size; ++i)
    state->corpus[i] = numbers[state->corpus[i]];
  dp_free(numbers);
  DP_ARRAY_FREE(&counts.words);
  return status;
}

/* ---- Skipgram: pairs ---- */
/* Frequent words are dropped more often. */
static bool is_kept(skipgram *state, int32_t word) {
  if (!(state->subsample > 0))
    return true;
  float count = (float)((const int32_t *)state->counts.data)[word];
  float share = state->subsample * (float)state->corpus_size;
  float chance = (sqrtf(count / share) + 1) * share / count;
  return !(dp_philox_float(dp_random_word(&state->random)) > chance);
}

static dp_status *fill_sentence(skipgram *state, dp_cancel *cancel) {
  uint32_t seen = 0;
  for (int i = 0; i < SENTENCE_WORDS; ++state->corpus_at) {
    if (state->corpus_at >= state->corpus_size) {
      ++state->epoch;
      state->corpus_at = 0;
    }
    int32_t word = state->corpus[state->corpus_at];
    if (is_kept(state, word))
      state->sentence[i++] = word;
    if ((++seen & 0xffff) == 0)
      DP_RETURN_IF_ERROR(dp_cancel_status(cancel));
  }
  return NULL;
}

/* The number of neighbours on each side that a word is paired with; at least one. */
static int draw_reach(skipgram *state) {
  if (state->window > 0)
    return 1 + (int)dp_random_below(&state->random, (uint32_t)state->window);
  dp_random_word(&state->random);
  return 1;
}

static dp_status *next_example(skipgram *state, dp_cancel *cancel) {
  if (state->at + 1 >= SENTENCE_WORDS) {
    DP_RETURN_IF_ERROR(fill_sentence(state, cancel));
    state->at = -1;
  }
  ++state->words_done;
  ++state->at;
  int reach = draw_reach(state), end = state->at + reach + 1;
  state->label = state->at > reach ? state->at - reach : 0;
  state->label_end = end < SENTENCE_WORDS ? end : SENTENCE_WORDS;
  return NULL;
}

static dp_status *next_pair(skipgram *state, dp_cancel *cancel, pair *pair_out) {
  for (;; ++state->label) {
    if (state->label >= state->label_end)
      DP_RETURN_IF_ERROR(next_example(state, cancel));
    if (state->label != state->at)
      break;
  }
  *pair_out = (pair){state->sentence[state->at], state->sentence[state->label++]};
  return NULL;
}

/* When a step is cancelled, some pairs may be drawn already; the next run continues with the
 * rest. */
static dp_status *fill_pairs(skipgram *state, dp_cancel *cancel) {
  for (; state->next_pair < PAIRS_AT_ONCE; ++state->next_pair)
    DP_RETURN_IF_ERROR(next_pair(state, cancel, &state->pairs[state->next_pair]));
  state->next_pair = 0;
  state->is_filled = true;
  return NULL;
}

static dp_status *take_pairs(skipgram *state, dp_cancel *cancel, int32_t *examples,
                             int32_t *labels) {
  if (!state->is_filled)
    DP_RETURN_IF_ERROR(fill_pairs(state, cancel));
  for (int64_t i = 0; i < state->batch; ++i) {
    examples[i] = state->pairs[state->next_pair].example;
    labels[i] = state->pairs[state->next_pair].label;
    if (++state->next_pair < PAIRS_AT_ONCE)
      continue;
    state->is_filled = false;
    state->next_pair = 0;
    DP_RETURN_IF_ERROR(fill_pairs(state, cancel));
  }
  return NULL;
}

/* ---- Skipgram: the kernel ---- */
static dp_status *skipgram_create(const dp_kernel_setup *setup, void *memory) {
  skipgram *state = memory;
  const dp_node *node = setup->node;
  dp_view name;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "filename", &name));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "batch_size", &state->batch));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "window_size", &state->window));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "min_count", &state->min_count));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "subsample", &state->subsample));
  if (state->batch < 0 || state->window < 0)
    return DP_INVALID("batch_size and window_size may not be negative, got %lld and %lld",
                      (long long)state->batch, (long long)state->window);
  char *text, *path = dp_strndup(name.data, name.length);
  size_t length;
  dp_status *status = dp_file_read_whole(path, UINT64_C(16) << 30, &text, &length);
  if (!status) {
    status = take_text(state, path, text, length);
    dp_free(text);
  }
  dp_free(path);
  pthread_mutex_init(&state->lock, NULL);
  state->has_lock = true;
  state->random = dp_random_words_of(&(dp_philox){0});
  state->at = SENTENCE_WORDS;
  state->corpus_at = state->corpus_size;
  state->epoch = -1;
  return status;
}

static void skipgram_destroy(void *memory) {
  skipgram *state = memory;
  if (state->has_lock)
    pthread_mutex_destroy(&state->lock);
  dp_tensor_deinit(&state->words);
  dp_tensor_deinit(&state->counts);
  dp_free(state->corpus);
}

static dp_status *skipgram_compute(dp_op_context *context, void *memory) {
  skipgram *state = memory;
  dp_shape shape = dp_shape_vector(state->batch);
  dp_tensor *examples, *labels;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 5, &shape, &examples));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 6, &shape, &labels));
  pthread_mutex_lock(&state->lock);
  dp_status *status = take_pairs(state, context->step->cancel, examples->data, labels->data);
  int32_t epoch = state->epoch;
  int64_t words_done = state->words_done;
  pthread_mutex_unlock(&state->lock);
  DP_RETURN_IF_ERROR(status);
  context->outputs[0].tensor = dp_tensor_copy(&state->words);
  context->outputs[1].tensor = dp_tensor_copy(&state->counts);
  DP_RETURN_IF_ERROR(dp_op_output_int64(context, 2, state->corpus_size));
  DP_RETURN_IF_ERROR(dp_op_output_int32(context, 3, epoch));
  return dp_op_output_int64(context, 4, words_done);
}

/* ---- NegTrain ---- */
typedef struct neg_train {
  int64_t samples;
  dp_alias alias;
  bool has_lock;
  pthread_mutex_t lock;
  dp_philox generator; /* used with the lock held */
} neg_train;

static dp_status *neg_train_create(const dp_kernel_setup *setup, void *memory) {
  neg_train *state = memory;
  const dp_attr *counts;
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(setup->node, "num_negative_samples", &state->samples));
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "vocab_count", DP_ATTR_LIST_INT, &counts));
  float *weights = DP_NEW_ARRAY(float, (size_t)counts->count + 1);
  for (int32_t i = 0; i < counts->count; ++i)
    weights[i] = powf((float)counts->integers[i], 0.75f);
  dp_status *status = dp_alias_init(&state->alias, weights, counts->count);
  dp_free(weights);
  state->generator = dp_philox_seed(dp_random_seed(), dp_random_seed());
  pthread_mutex_init(&state->lock, NULL);
  state->has_lock = true;
  return status;
}

static void neg_train_destroy(void *memory) {
  neg_train *state = memory;
  if (state->has_lock)
    pthread_mutex_destroy(&state->lock);
  dp_alias_deinit(&state->alias);
}

static dp_status *check_places(const dp_tensor *places, const char *name, int64_t limit) {
  const int32_t *values = places->data;
  for (int64_t i = 0; i < places->shape.elements; ++i)
    if (values[i] < 0 || values[i] >= limit)
      return DP_INVALID("%s[%lld] = %d is not in [0, %lld)", name, (long long)i, values[i],
                        (long long)limit);
  return NULL;
}

static dp_status *neg_train_check(const dp_op_context *context, const neg_train *state,
                                  const dp_shape *in, const dp_shape *out) {
  const dp_tensor *examples = dp_op_input(context, 2), *labels = dp_op_input(context, 3);
  if (in->rank != 2)
    return DP_INVALID("Must be a matrix");
  if (!dp_shape_equal(in, out))
    return DP_INVALID("w_in.shape == w_out.shape");
  if (examples->shape.rank != 1)
    return DP_INVALID("Must be a vector");
  if (!dp_shape_equal(&examples->shape, &labels->shape))
    return DP_INVALID("examples.shape == labels.shape");
  if (dp_op_input(context, 4)->shape.rank != 0)
    return DP_INVALID("Must be a scalar");
  if (in->dims[0] != state->alias.count)
    return DP_INVALID("vocab_size mismatches: %lld vs. %d", (long long)in->dims[0],
                      state->alias.count);
  DP_RETURN_IF_ERROR(check_places(examples, "examples", in->dims[0]));
  return check_places(labels, "labels", in->dims[0]);
}

/* Moves the vector `to` towards `from` (`sign` 1) or away from it (-1); adds to `change` what
 * `from` has to change by. */
static void approach(const float *from, float *to, float *change, int64_t size, float sign,
                     float rate) {
  float dot = 0;
  for (int64_t i = 0; i < size; ++i)
    dot += from[i] * to[i];
  float step = sign / (expf(sign * dot) + 1) * rate;
  for (int64_t i = 0; i < size; ++i) {
    change[i] += to[i] * step;
    to[i] += from[i] * step;
  }
}

static dp_random_words take_words(neg_train *state, int64_t examples) {
  int64_t samples = state->samples > 0 ? state->samples : 0;
  pthread_mutex_lock(&state->lock);
  dp_random_words words = dp_random_words_of(&state->generator);
  dp_philox_skip(&state->generator, (uint64_t)(examples * samples * 2));
  pthread_mutex_unlock(&state->lock);
  return words;
}

static dp_status *train(const dp_op_context *context, neg_train *state,
                        dp_variable_update *updates) {
  DP_RETURN_IF_ERROR(neg_train_check(context, state, &updates[0].old.shape, &updates[1].old.shape));
  const dp_tensor *examples = dp_op_input(context, 2);
  const int32_t *example = examples->data, *label = dp_op_input(context, 3)->data;
  float rate = *(const float *)dp_op_input(context, 4)->data;
  int64_t count = examples->shape.elements, size = updates[0].old.shape.dims[1];
  float *in = updates[0].target.data, *out = updates[1].target.data;
  float *change = dp_malloc((size_t)(size + 1) * sizeof(float));
  dp_random_words words = take_words(state, count);
  for (int64_t i = 0; i < count; ++i) {
    float *from = in + example[i] * size;
    for (int64_t j = 0; j < size; ++j)
      change[j] = 0;
    approach(from, out + label[i] * size, change, size, 1, rate);
    for (int64_t j = 0; j < state->samples; ++j) {
      int32_t sample = dp_alias_draw(&state->alias, &words);
      if (sample != label[i])
        approach(from, out + sample * size, change, size, -1, rate);
    }
    for (int64_t j = 0; j < size; ++j)
      from[j] += change[j];
  }
  dp_free(change);
  return NULL;
}

static dp_status *neg_train_compute(dp_op_context *context, void *memory) {
  dp_variable *variables[2] = {dp_op_reference(context, 0), dp_op_reference(context, 1)};
  dp_variable_update updates[2];
  DP_RETURN_IF_ERROR(dp_variable_begin_all(variables, 2, true, updates));
  dp_status *status = train(context, memory, updates);
  dp_variable_end_all(updates, 2, status == NULL);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "Skipgram",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(skipgram),
     .create = skipgram_create,
     .compute = skipgram_compute,
     .destroy = skipgram_destroy},
    {.op = "NegTrain",
     .state_size = sizeof(neg_train),
     .create = neg_train_create,
     .compute = neg_train_compute,
     .destroy = neg_train_destroy},
};
DP_KERNEL_FAMILY(word2vec, rows);
