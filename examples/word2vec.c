/* Word vectors by skip-gram with negative samples, from any text:
 *
 *   downpour launch --ps 2 --workers 2 -- build/examples/word2vec --data book.txt --dir /tmp/words
 *
 * The vectors are a table in as many parts as there are parameter servers; a step moves only the
 * rows of its own words. At the end it prints the nearest neighbours of frequent words. Options are
 * in example.h. Started again with the same --dir and text, it goes on where it stopped. */
#include "example.h"
#include <ctype.h>
#include <math.h>

enum { WORDS = 2000, SIZE = 32, WINDOW = 3, NEGATIVES = 5, LONGEST = 32, SHOWN = 5 };

typedef struct vocabulary {
  char words[WORDS][LONGEST];
  long counts[WORDS];
  int size;
  int *text; /* the words of the text, by number */
  long length;
} vocabulary;

static int number_of(vocabulary *all, const char *word) {
  for (int i = 0; i < all->size; i++)
    if (strcmp(all->words[i], word) == 0)
      return i;
  if (all->size == WORDS)
    return -1;
  strcpy(all->words[all->size], word);
  return all->size++;
}

/* Words are letters, in lower case; those that come after WORDS different ones are passed over. */
static vocabulary *read_text(const char *program, const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) {
    perror(path);
    exit(1);
  }
  vocabulary *all = calloc(1, sizeof(vocabulary));
  char word[LONGEST];
  int length = 0, letter;
  do {
    letter = fgetc(file);
    if (isalpha(letter) && length + 1 < LONGEST) {
      word[length++] = (char)tolower(letter);
    } else if (!isalpha(letter) && length > 0) {
      word[length] = '\0';
      length = 0;
      int number = number_of(all, word);
      if (number < 0)
        continue;
      all->counts[number]++;
      all->text = realloc(all->text, (size_t)(all->length + 1) * sizeof(int));
      all->text[all->length++] = number;
    }
  } while (letter != EOF);
  if (ferror(file)) { /* a folder, say */
    perror(path);
    exit(1);
  }
  fclose(file);
  if (all->length <= 2 * WINDOW) {
    fprintf(stderr, "%s: %s has too few words\n", program, path);
    exit(1);
  }
  return all;
}

static TF_Tensor *int_tensor(long rows, long columns) {
  return TF_AllocateTensor(TF_INT32, (int64_t[]){rows, columns}, 2,
                           (size_t)(rows * columns) * sizeof(int32_t));
}

/* A word, a neighbour of it, and words that are probably none. */
static void fill_batch(const vocabulary *all, long batch, TF_Tensor *word, TF_Tensor *others) {
  int32_t *centers = TF_TensorData(word), *samples = TF_TensorData(others);
  for (long i = 0; i < batch; i++) {
    long at = WINDOW + rand() % (all->length - 2 * WINDOW);
    int distance = 1 + rand() % WINDOW;
    centers[i] = all->text[at];
    samples[i * (1 + NEGATIVES)] = all->text[rand() % 2 ? at + distance : at - distance];
    for (int k = 1; k <= NEGATIVES; k++)
      samples[i * (1 + NEGATIVES) + k] = all->text[rand() % all->length];
  }
}

static double similarity(const float *a, const float *b) {
  double dot = 0, aa = 0, bb = 0;
  for (int i = 0; i < SIZE; i++) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return dot / sqrt(aa * bb + 1e-12);
}

static void print_neighbours(const vocabulary *all, const float *vectors) {
  bool shown[WORDS] = {false};
  for (int line = 0; line < SHOWN; line++) {
    int word = -1;
    for (int i = 0; i < all->size; i++)
      if (!shown[i] && strlen(all->words[i]) > 4 &&
          (word < 0 || all->counts[i] > all->counts[word]))
        word = i;
    if (word < 0)
      return;
    shown[word] = true;
    bool used[WORDS] = {false};
    used[word] = true;
    printf("%s:", all->words[word]);
    for (int k = 0; k < SHOWN; k++) {
      int best = -1;
      for (int i = 0; i < all->size; i++)
        if (!used[i] && all->counts[i] > 2 &&
            (best < 0 || similarity(vectors + word * SIZE, vectors + i * SIZE) >
                             similarity(vectors + word * SIZE, vectors + best * SIZE)))
          best = i;
      if (best < 0)
        break;
      used[best] = true;
      printf(" %s", all->words[best]);
    }
    printf("\n");
  }
}

static void print_vectors(const vocabulary *all, const TF_Tensor *tensor) {
  TF_Status *status = TF_NewStatus();
  const float *vectors = dp_tensor_get_floats(tensor, (int64_t)all->size * SIZE, status);
  if (vectors)
    print_neighbours(all, vectors);
  else
    fprintf(stderr, "%s\n", TF_Message(status));
  TF_DeleteStatus(status);
}

int main(int argc, char **argv) {
  example_options options = example_parse(
      argc, argv, (example_options){.steps = 3000, .batch = 128, .data = "CONTRIBUTING.md"});
  dp_job *job = example_job(argv[0]);
  vocabulary *all = read_text(argv[0], options.data);
  srand(1 + (unsigned)dp_job_worker(job));
  int parts = dp_job_ps_count(job) > 1 ? dp_job_ps_count(job) : 1;

  dp_model *model = dp_model_create(job);
  dp_scope *scope = dp_model_scope(model);
  TF_Output word = dp_placeholder(scope, TF_INT32), others = dp_placeholder(scope, TF_INT32);
  dp_table *inner = dp_model_table(model, "inner", WORDS, SIZE, parts, dp_init_uniform(-0.5, 0.5));
  dp_table *outer = dp_model_table(model, "outer", WORDS, SIZE, parts, dp_init_constant(0));
  /* [batch, 1, size] x [batch, 1 + negatives, size]' = [batch, 1, 1 + negatives] */
  TF_Output products = dp_batch_mat_mul(scope, dp_table_lookup(inner, word),
                                        dp_table_lookup(outer, others), .adj_y = true);
  float signs[1 + NEGATIVES] = {-1, 1, 1, 1, 1, 1}; /* the neighbour is to be near */
  TF_Output sides = dp_const_floats(scope, DP_SHAPE(1 + NEGATIVES), signs);
  TF_Output each = dp_softplus(scope, dp_mul(scope, products, sides));
  TF_Output loss = dp_mean(scope, each, dp_const_vector(scope, DP_INTS(0, 1, 2)));
  TF_Output everything = dp_range(scope, dp_const_int32(scope, 0), dp_const_int32(scope, all->size),
                                  dp_const_int32(scope, 1));
  TF_Output vectors = dp_table_lookup(inner, everything);
  dp_model_minimize(model, dp_adagrad(0.5), loss, .sync = options.sync,
                    .replicas = (int)options.replicas);
  dp_model_summary_scalar(model, "loss", loss);

  dp_training *training = dp_training_start(
      model, .checkpoint_dir = options.dir, .last_step = options.steps, .save_seconds = 30,
      .log_steps = 500, .metrics = DP_METRICS({"loss", loss}));
  TF_Tensor *words = int_tensor(options.batch, 1),
            *samples = int_tensor(options.batch, 1 + NEGATIVES);
  while (!dp_training_should_stop(training)) {
    fill_batch(all, options.batch, words, samples);
    dp_training_run(training, DP_FEEDS({word, words}, {others, samples}), DP_OUTPUTS());
  }
  TF_DeleteTensor(words);
  TF_DeleteTensor(samples);
  if (dp_job_is_chief(job) && dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(vectors)))
    print_vectors(all, dp_training_tensor(training, 0));
  int code = dp_training_end(training);
  dp_model_destroy(model);
  dp_job_end(job);
  free(all->text);
  free(all);
  return code;
}
