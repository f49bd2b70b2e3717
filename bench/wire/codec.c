/* Measures encoding and decoding of messages: large tensors, a graph of 2,000 nodes, a small
 * RunStep.
 *
 * Each figure is the best of several rounds. Calls of malloc, calloc and realloc are counted too,
 * since a warm step should make few. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "wire/control.h"
#include "wire/run_messages.h"

/* ---- Counting allocations ---------------------------------------------------------------------*/

static atomic_size_t allocations;
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
#pragma GCC visibility push(default) /* the libraries should call these too */
void *malloc(size_t size) {
  allocations++;
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  allocations++;
  return __libc_calloc(count, size);
}
void *realloc(void *pointer, size_t size) {
  allocations++;
  return __libc_realloc(pointer, size);
}
#pragma GCC visibility pop
#endif

/* ---- Measuring --------------------------------------------------------------------------------*/

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void require(dp_status *status) {
  if (status) {
    fprintf(stderr, "%s\n", dp_status_message(status));
    exit(1);
  }
}

typedef void (*round_fn)(void *arg);

/* Prints the best time of `rounds`. `bytes` is what a round moves, for GB/s; 0: not printed. */
static void measure(const char *what, int rounds, size_t bytes, round_fn round, void *arg) {
  double best = 1e9;
  size_t fewest = SIZE_MAX;
  for (int i = 0; i < rounds; i++) {
    size_t before = allocations;
    double start = now();
    round(arg);
    double seconds = now() - start;
    size_t made = allocations - before;
    best = seconds < best ? seconds : best;
    fewest = made < fewest ? made : fewest;
  }
  printf("%-52s %10.1f us", what, best * 1e6);
  if (bytes)
    printf(" %8.2f GB/s", (double)bytes / best / 1e9);
  else
    printf("              ");
  printf(" %7zu allocations\n", fewest);
}

/* ---- Large tensors ----------------------------------------------------------------------------*/

#define TENSOR_BYTES ((size_t)100 << 20)

static dp_named_tensor large;
static dp_rope one_piece, misaligned, many_pieces;

static void encode_large(void *arg) {
  dp_rope rope = {0};
  dp_run_step_request request = {.session_handle = "s", .feeds = &large, .feed_count = 1};
  require(dp_run_step_request_encode(&request, &rope));
  dp_rope_deinit(&rope);
}

static void decode_rope(void *arg) {
  dp_arena *arena = dp_arena_create();
  dp_run_step_request request;
  require(dp_run_step_request_decode(arg, arena, &request));
  dp_run_step_request_deinit(&request);
  dp_arena_destroy(arena);
}

static void copy_memory(void *arg) {
  dp_buffer *buffer = NULL;
  require(dp_buffer_create(TENSOR_BYTES, &buffer));
  memcpy(buffer->data, large.tensor.data, TENSOR_BYTES);
  dp_buffer_release(buffer);
}

/* Cuts a message into pieces, as gRPC delivers them; each piece starts `shift` bytes into its
 * buffer. */
static void cut(const uint8_t *bytes, size_t length, size_t piece, size_t shift, dp_rope *rope) {
  for (size_t at = 0; at < length; at += piece) {
    size_t here = length - at < piece ? length - at : piece;
    dp_buffer *buffer = NULL;
    require(dp_buffer_create(here + shift, &buffer));
    memcpy((char *)buffer->data + shift, bytes + at, here);
    dp_rope_append_piece(rope, buffer, (char *)buffer->data + shift, here);
  }
}

static void bench_tensors(void) {
  dp_shape shape = dp_shape_vector((int64_t)(TENSOR_BYTES / 4));
  large.name = "x:0";
  require(dp_tensor_create_zero(DP_FLOAT, &shape, &large.tensor));
  dp_run_step_request request = {.session_handle = "s", .feeds = &large, .feed_count = 1};
  dp_rope rope = {0};
  require(dp_run_step_request_encode(&request, &rope));
  uint8_t *bytes = malloc(rope.length);
  if (!bytes)
    exit(1);
  dp_rope_flatten(&rope, bytes);
  size_t head = rope.length - TENSOR_BYTES;
  cut(bytes, rope.length, rope.length, (4 - head % 4) % 4, &one_piece);
  cut(bytes, rope.length, rope.length, (4 - head % 4) % 4 + 1, &misaligned);
  cut(bytes, rope.length, 13000, 0, &many_pieces);
  free(bytes);
  measure("memcpy of 100 MiB into a pooled buffer", 7, TENSOR_BYTES, copy_memory, NULL);
  measure("encode RunStep with 100 MiB (by reference)", 9, 0, encode_large, NULL);
  measure("decode, one aligned piece (in place)", 9, 0, decode_rope, &one_piece);
  measure("decode, one misaligned piece (copied)", 7, TENSOR_BYTES, decode_rope, &misaligned);
  measure("decode, pieces of 13,000 bytes (copied)", 7, TENSOR_BYTES, decode_rope, &many_pieces);
  dp_rope_deinit(&rope);
  dp_rope_deinit(&one_piece);
  dp_rope_deinit(&misaligned);
  dp_rope_deinit(&many_pieces);
  dp_tensor_deinit(&large.tensor);
}

/* ---- Small steps ------------------------------------------------------------------------------*/

static dp_run_step_request small_request;
static dp_rope small_rope;
static dp_arena *small_arena;

static void encode_small(void *arg) {
  dp_rope rope = {0};
  require(dp_run_step_request_encode(&small_request, &rope));
  dp_rope_deinit(&rope);
}

static void decode_small(void *arg) {
  dp_run_step_request request;
  require(dp_run_step_request_decode(&small_rope, small_arena, &request));
  dp_run_step_request_deinit(&request);
  dp_arena_reset(small_arena);
}

static void bench_small(void) {
  static dp_named_tensor feeds[2] = {{.name = "x:0"}, {.name = "y:0"}};
  static const char *fetches[] = {"loss:0", "accuracy:0"};
  dp_shape shape = dp_shape_matrix(8, 8);
  for (int i = 0; i < 2; i++)
    require(dp_tensor_create_zero(DP_FLOAT, &shape, &feeds[i].tensor));
  small_request = (dp_run_step_request){.session_handle = "0123456789abcdef",
                                        .feeds = feeds,
                                        .feed_count = 2,
                                        .fetches = fetches,
                                        .fetch_count = 2,
                                        .request_id = 12345};
  small_arena = dp_arena_create();
  require(dp_run_step_request_encode(&small_request, &small_rope));
  measure("encode a small RunStep (2 feeds of 256 bytes)", 10000, 0, encode_small, NULL);
  measure("decode it", 10000, 0, decode_small, NULL);
  dp_rope_deinit(&small_rope);
  dp_arena_destroy(small_arena);
  for (int i = 0; i < 2; i++)
    dp_tensor_deinit(&feeds[i].tensor);
}

/* ---- Graphs -----------------------------------------------------------------------------------*/

#define NODES 2000

static uint8_t *graph_bytes;
static size_t graph_length, arena_bytes;
static Tensorflow__GraphDef *graph_message;

static Tensorflow__NodeDef *make_node(int index, dp_arena *arena) {
  static const char *const keys[] = {"T", "dtype", "transpose_a", "transpose_b"};
  Tensorflow__NodeDef *node = dp_wire_new(arena, &tensorflow__node_def__descriptor);
  node->name = dp_arena_printf(arena, "layer_%d/gradients/MatMul_%d", index / 50, index);
  node->op = "MatMul";
  node->device = "/job:worker/replica:0/task:0/device:CPU:0";
  node->n_input = 3;
  node->input = DP_ARENA_ARRAY(arena, char *, 3);
  for (int i = 0; i < 3; i++)
    node->input[i] = dp_arena_printf(arena, "layer_%d/kernel_%d", index / 50, index - i);
  node->n_attr = 4;
  node->attr = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef__AttrEntry *, 4);
  for (int i = 0; i < 4; i++) {
    Tensorflow__AttrValue *value = dp_wire_new(arena, &tensorflow__attr_value__descriptor);
    value->value_case =
        i < 2 ? TENSORFLOW__ATTR_VALUE__VALUE_TYPE : TENSORFLOW__ATTR_VALUE__VALUE_B;
    if (i < 2)
      value->type = TENSORFLOW__DATA_TYPE__DT_FLOAT;
    else
      value->b = 1;
    node->attr[i] = dp_wire_new(arena, &tensorflow__node_def__attr_entry__descriptor);
    node->attr[i]->key = (char *)keys[i];
    node->attr[i]->value = value;
  }
  return node;
}

static void unpack_graph(void *arg) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__GraphDef *graph = NULL;
  require(dp_wire_unpack_bytes(&tensorflow__graph_def__descriptor, graph_bytes, graph_length, arena,
                               &graph));
  arena_bytes = dp_arena_bytes(arena);
  dp_arena_destroy(arena);
}

static void unpack_graph_with_malloc(void *arg) {
  Tensorflow__GraphDef *graph = tensorflow__graph_def__unpack(NULL, graph_length, graph_bytes);
  tensorflow__graph_def__free_unpacked(graph, NULL);
}

static void pack_graph(void *arg) {
  dp_rope rope = {0};
  require(dp_wire_pack(graph_message, &rope));
  dp_rope_deinit(&rope);
}

static void bench_graphs(void) {
  dp_arena *arena = dp_arena_create();
  graph_message = dp_wire_new(arena, &tensorflow__graph_def__descriptor);
  graph_message->n_node = NODES;
  graph_message->node = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef *, NODES);
  for (int i = 0; i < NODES; i++)
    graph_message->node[i] = make_node(i, arena);
  require(dp_wire_pack_bytes(graph_message, arena, &graph_bytes, &graph_length));
  printf("graph of %d nodes: %zu bytes\n", NODES, graph_length);
  measure("unpack it into an arena", 30, 0, unpack_graph, NULL);
  measure("unpack it with protobuf-c and malloc, and free", 30, 0, unpack_graph_with_malloc, NULL);
  measure("pack it", 30, 0, pack_graph, NULL);
  printf("the arena takes %zu bytes\n", arena_bytes);
  dp_arena_destroy(arena);
}

int main(void) {
  bench_tensors();
  bench_small();
  bench_graphs();
  return 0;
}
