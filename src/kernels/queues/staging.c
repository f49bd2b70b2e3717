/* Staging areas (staging_internal.h). An attempt is a put, take or peek; there is a line of puts
 * and a line of takes and peeks.
 *
 * Whatever changes an area calls flush. It goes through both lines, serves every attempt that can
 * be served, and repeats that until nothing changes. An attempt never holds up a later one: a take
 * of one key does not wait for the take of another. */
#include "kernels/queues/staging_internal.h"

#include <string.h>
#include "base/memory.h"

typedef struct staging_attempt {
  dp_waiter waiter; /* must be first */
  dp_staging *area;
  dp_staging_request request;
  int64_t bytes; /* size of the tensors that a put brings */
  dp_status *status;
} staging_attempt;

/* ---- Tuples ---- */
static void clear_tuples(dp_staging_tuples *tuples, int32_t component_count) {
  for (size_t i = 0; i < tuples->count; ++i)
    dp_pieces_destroy(tuples->items[i].parts, component_count);
  tuples->count = 0;
}

/* The first position whose key is not smaller. */
static size_t place_of(const dp_staging_tuples *tuples, int64_t key) {
  size_t low = 0, high = tuples->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (tuples->items[middle].key < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static dp_staging_tuple *find(const dp_staging_tuples *tuples, int64_t key) {
  size_t place = place_of(tuples, key);
  bool is_there = place < tuples->count && tuples->items[place].key == key;
  return is_there ? &tuples->items[place] : NULL;
}

static dp_staging_tuple *insert(dp_staging_tuples *tuples, int64_t key, dp_tensor *parts) {
  size_t place = place_of(tuples, key);
  DP_ARRAY_RESERVE(tuples, tuples->count + 1);
  memmove(tuples->items + place + 1, tuples->items + place,
          sizeof(dp_staging_tuple) * (tuples->count - place));
  ++tuples->count;
  tuples->items[place] = (dp_staging_tuple){key, parts};
  return &tuples->items[place];
}

static void erase(dp_staging_tuples *tuples, dp_staging_tuple *tuple) {
  size_t place = (size_t)(tuple - tuples->items);
  --tuples->count;
  memmove(tuple, tuple + 1, sizeof(dp_staging_tuple) * (tuples->count - place));
}

static int32_t count_present(const dp_staging *area, const dp_tensor *parts) {
  int32_t present = 0;
  for (int32_t i = 0; i < area->component_count; ++i)
    present += dp_tensor_is_set(&parts[i]);
  return present;
}

static int64_t count_bytes(const dp_tensor *parts, int32_t count) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < count; ++i)
    bytes += (int64_t)dp_tensor_bytes(&parts[i]);
  return bytes;
}

/* ---- Life ---- */
static void destroy(dp_resource *resource) {
  dp_staging *area = (dp_staging *)resource;
  clear_tuples(&area->complete, area->component_count);
  clear_tuples(&area->incomplete, area->component_count);
  DP_ARRAY_FREE(&area->complete);
  DP_ARRAY_FREE(&area->incomplete);
  pthread_mutex_destroy(&area->lock);
  dp_free(area);
}

static void describe(dp_resource *resource, dp_text *text) {
  dp_staging *area = (dp_staging *)resource;
  pthread_mutex_lock(&area->lock);
  dp_text_printf(text, "staging area with %zu tuples, %lld bytes", area->complete.count,
                 (long long)area->bytes);
  if (area->puts.count)
    dp_text_printf(text, ", %lld wait to put", (long long)area->puts.count);
  if (area->takes.count)
    dp_text_printf(text, ", %lld wait to take", (long long)area->takes.count);
  pthread_mutex_unlock(&area->lock);
}

const dp_resource_ops *dp_staging_ops(dp_staging_kind kind) {
  static const dp_resource_ops ops[] = {
      {"StagingArea", destroy, describe},
      {"StagingMap", destroy, describe},
      {"OrderedStagingMap", destroy, describe},
  };
  return &ops[kind];
}

static void end_cancelled(dp_waiter *waiter);

dp_staging *dp_staging_create(dp_staging_kind kind, int64_t capacity, int64_t memory_limit,
                              int32_t component_count) {
  dp_staging *area = DP_NEW(dp_staging);
  dp_resource_init(&area->resource, dp_staging_ops(kind));
  area->capacity = capacity;
  area->memory_limit = memory_limit;
  area->component_count = component_count;
  pthread_mutex_init(&area->lock, NULL);
  area->puts = area->takes = (dp_waiters){.lock = &area->lock, .end = end_cancelled};
  return area;
}

/* ---- Serving, with the lock held; true when the attempt has ended ---- */
static bool fail(staging_attempt *served, dp_status *status) {
  served->status = status;
  return true;
}

static dp_status *out_of_bounds(const staging_attempt *served, int32_t index) {
  return DP_INVALID("Index '%d' for key '%lld' was out of bounds '%d'.", index,
                    (long long)served->request.key, served->area->component_count);
}

/* Moves the tensors of a put into a tuple. */
static dp_status *fill(staging_attempt *served, dp_tensor *parts) {
  const dp_staging_request *request = &served->request;
  for (int32_t i = 0; i < request->part_count; ++i) {
    int32_t index = request->indices[i];
    if (index < 0 || index >= served->area->component_count)
      return out_of_bounds(served, index);
    if (dp_tensor_is_set(&parts[index]))
      return DP_INVALID("The tensor for index '%d' for key '%lld' was already initialized '%d'.",
                        index, (long long)request->key, served->area->component_count);
  }
  for (int32_t i = 0; i < request->part_count; ++i)
    parts[request->indices[i]] = dp_tensor_take(&request->parts[i]);
  served->area->bytes += served->bytes;
  return NULL;
}

/* When there is a complete tuple with this key already, the new one is dropped. */
static void complete(dp_staging *area, int64_t key, dp_tensor *parts) {
  if (!find(&area->complete, key)) {
    insert(&area->complete, key, parts);
    return;
  }
  area->bytes -= count_bytes(parts, area->component_count);
  dp_pieces_destroy(parts, area->component_count);
}

static bool is_full(const dp_staging *area, const staging_attempt *served, bool is_whole) {
  if (is_whole && area->capacity > 0 && (int64_t)area->complete.count >= area->capacity)
    return true;
  return area->memory_limit > 0 && area->bytes + served->bytes > area->memory_limit;
}

static bool serve_put(dp_staging *area, staging_attempt *served) {
  dp_staging_request *request = &served->request;
  bool is_whole = request->part_count == area->component_count;
  if (area->memory_limit > 0 && served->bytes > area->memory_limit)
    return fail(served,
                dp_status_create(DP_RESOURCE_EXHAUSTED,
                                 "Attempted to insert tensors with combined size of '%lld' bytes "
                                 "into Staging Area with a memory limit of '%lld'.",
                                 (long long)served->bytes, (long long)area->memory_limit));
  if (is_full(area, served, is_whole))
    return false;
  if (request->choice == DP_STAGING_NEXT)
    request->key = area->next_key++;
  dp_staging_tuple *partial = is_whole ? NULL : find(&area->incomplete, request->key);
  dp_tensor *parts = partial ? partial->parts : dp_pieces_create(area->component_count);
  dp_status *status = fill(served, parts);
  if (status) {
    if (!partial)
      dp_pieces_destroy(parts, area->component_count);
    return fail(served, status);
  }
  if (count_present(area, parts) == area->component_count) {
    if (partial)
      erase(&area->incomplete, partial);
    complete(area, request->key, parts);
  } else if (!partial) {
    insert(&area->incomplete, request->key, parts);
  }
  return true;
}

static dp_staging_tuple *choose(dp_staging *area, const dp_staging_request *request) {
  if (request->choice == DP_STAGING_KEY)
    return find(&area->complete, request->key);
  int64_t place = request->choice == DP_STAGING_PLACE ? request->key : 0;
  return place < (int64_t)area->complete.count ? &area->complete.items[place] : NULL;
}

static bool serve_take(dp_staging *area, staging_attempt *served) {
  dp_staging_request *request = &served->request;
  dp_staging_tuple *tuple = choose(area, request);
  if (!tuple)
    return false;
  request->key = tuple->key;
  for (int32_t i = 0; i < request->part_count; ++i) {
    int32_t index = request->indices[i];
    if (index < 0 || index >= area->component_count)
      return fail(served, out_of_bounds(served, index));
    if (!dp_tensor_is_set(&tuple->parts[index]))
      return fail(served, DP_INVALID("Tensor at index '%d' for key '%lld' has already been "
                                     "removed.",
                                     index, (long long)request->key));
  }
  request->parts = dp_pieces_create(request->part_count);
  for (int32_t i = 0; i < request->part_count; ++i)
    request->parts[i] = dp_tensor_copy(&tuple->parts[request->indices[i]]);
  if (request->verb == DP_STAGING_PEEK)
    return true;
  area->bytes -= count_bytes(request->parts, request->part_count);
  for (int32_t i = 0; i < request->part_count; ++i)
    dp_tensor_deinit(&tuple->parts[request->indices[i]]);
  if (count_present(area, tuple->parts) == 0) {
    dp_pieces_destroy(tuple->parts, area->component_count);
    erase(&area->complete, tuple);
  }
  return true;
}

static bool serve_line(dp_staging *area, dp_waiters *line, dp_waiters *ended) {
  bool progress = false;
  for (dp_waiter *waiter = line->first, *next; waiter; waiter = next) {
    next = waiter->next;
    staging_attempt *served = (staging_attempt *)waiter;
    bool is_put = served->request.verb == DP_STAGING_PUT;
    if (!(is_put ? serve_put(area, served) : serve_take(area, served)))
      continue;
    dp_waiters_take(line, waiter);
    dp_waiters_collect(ended, waiter);
    progress = true;
  }
  return progress;
}

/* ---- Ending, without the lock ---- */
static void end(staging_attempt *ended) {
  dp_staging_request *request = &ended->request;
  request->done(request->arg, ended->status, request->key, request->parts);
  if (request->parts)
    dp_pieces_destroy(request->parts, request->part_count);
  dp_free(request->indices);
  dp_free(ended);
}

static void flush(dp_staging *area) {
  dp_waiters ended = {0};
  dp_resource_retain(area);
  pthread_mutex_lock(&area->lock);
  bool more = true;
  while (more) {
    more = serve_line(area, &area->puts, &ended);
    more = serve_line(area, &area->takes, &ended) || more;
  }
  pthread_mutex_unlock(&area->lock);
  for (dp_waiter *waiter = ended.first, *next; waiter; waiter = next) {
    next = waiter->next;
    dp_waiter_settle(waiter);
    end((staging_attempt *)waiter);
  }
  dp_resource_release(area);
}

static dp_status *cancelled(void) {
  return dp_status_create(DP_CANCELLED, "Staging operation was cancelled");
}

/* The area has not changed, so nobody else needs to be served. */
static void end_cancelled(dp_waiter *waiter) {
  staging_attempt *gone = (staging_attempt *)waiter;
  gone->status = cancelled();
  end(gone);
}

static dp_status *check_order(const dp_staging_request *request) {
  for (int32_t i = 1; i < request->part_count; ++i)
    if (request->indices[i] <= request->indices[i - 1])
      return DP_INVALID("Indices are not strictly ordered");
  return NULL;
}

void dp_staging_start(dp_staging *area, dp_staging_request request, dp_cancel *cancel) {
  staging_attempt *made = DP_NEW(staging_attempt);
  made->area = area;
  made->request = request;
  if (request.verb == DP_STAGING_PUT)
    made->bytes = count_bytes(request.parts, request.part_count);
  made->status = check_order(&request);
  if (made->status) {
    end(made);
    return;
  }
  /* Once the attempt waits, any thread may end it and release the caller's reference to the
   * area. */
  dp_resource_retain(area);
  pthread_mutex_lock(&area->lock);
  bool is_live = dp_waiters_join(request.verb == DP_STAGING_PUT ? &area->puts : &area->takes,
                                 &made->waiter, cancel);
  pthread_mutex_unlock(&area->lock);
  if (is_live) {
    flush(area);
  } else {
    made->status = cancelled();
    end(made);
  }
  dp_resource_release(area);
}

void dp_staging_clear(dp_staging *area) {
  pthread_mutex_lock(&area->lock);
  clear_tuples(&area->complete, area->component_count);
  clear_tuples(&area->incomplete, area->component_count);
  area->bytes = 0;
  pthread_mutex_unlock(&area->lock);
  flush(area);
}

void dp_staging_sizes(dp_staging *area, int64_t *complete_out, int64_t *incomplete_out) {
  pthread_mutex_lock(&area->lock);
  *complete_out = (int64_t)area->complete.count;
  *incomplete_out = (int64_t)area->incomplete.count;
  pthread_mutex_unlock(&area->lock);
}
