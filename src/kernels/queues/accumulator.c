/* Conditional accumulators: adding gradients and giving sums to those who wait
 * (accumulator_internal.h). One lock per accumulator; callbacks come after it is released. Sparse
 * sums are merged in accumulator_sparse.c. */
#include "kernels/queues/accumulator_internal.h"

#include "base/log.h"
#include "base/memory.h"

/* A call that waits for a sum; later it holds the sum. */
typedef struct taker {
  dp_waiter waiter; /* must be first */
  dp_accumulator *accumulator;
  int64_t wanted;
  int64_t count; /* number of gradients in the value */
  dp_tensor value;
  dp_sparse_sum rows;
  dp_status *status;
  dp_accumulator_done_fn done;
  void *arg;
} taker;

/* ---- Life ---- */
static void destroy(dp_resource *resource) {
  dp_accumulator *accumulator = (dp_accumulator *)resource;
  dp_tensor_deinit(&accumulator->value);
  dp_sparse_sum_deinit(&accumulator->rows);
  pthread_mutex_destroy(&accumulator->lock);
  dp_free(accumulator->name);
  dp_free(accumulator);
}

static void describe(dp_resource *resource, dp_text *text) {
  dp_accumulator *accumulator = (dp_accumulator *)resource;
  pthread_mutex_lock(&accumulator->lock);
  dp_text_printf(text, "%saccumulator at step %lld with %lld gradients",
                 accumulator->is_sparse ? "sparse " : "", (long long)accumulator->step,
                 (long long)accumulator->count);
  if (accumulator->takers.first)
    dp_text_printf(text, ", %lld wait to take, the first of them %lld",
                   (long long)accumulator->takers.count,
                   (long long)((taker *)accumulator->takers.first)->wanted);
  pthread_mutex_unlock(&accumulator->lock);
}

const dp_resource_ops dp_accumulator_ops = {"N10tensorflow26ConditionalAccumulatorBaseE", destroy,
                                            describe};

static void end_cancelled(dp_waiter *waiter);

dp_status *dp_accumulator_create(const char *name, dp_dtype dtype, const dp_partial_shape *shape,
                                 bool is_sparse, bool takes_mean,
                                 dp_accumulator **accumulator_out) {
  dp_combine add;
  DP_RETURN_IF_ERROR(dp_combine_init(&add, DP_COMBINE_ADD, dtype));
  dp_accumulator *accumulator = DP_NEW(dp_accumulator);
  dp_resource_init(&accumulator->resource, &dp_accumulator_ops);
  accumulator->name = dp_strdup(name);
  accumulator->dtype = dtype;
  accumulator->shape = *shape;
  accumulator->is_sparse = is_sparse;
  accumulator->takes_mean = takes_mean;
  accumulator->add = add;
  pthread_mutex_init(&accumulator->lock, NULL);
  accumulator->takers = (dp_waiters){.lock = &accumulator->lock, .end = end_cancelled};
  *accumulator_out = accumulator;
  return NULL;
}

/* ---- Taking ---- */
static void divide_short(dp_dtype dtype, uint16_t *value, int64_t count, float divisor) {
  float block[DP_KERNEL_BLOCK];
  for (int64_t i = 0; i < count; i += DP_KERNEL_BLOCK) {
    int64_t size = count - i < DP_KERNEL_BLOCK ? count - i : DP_KERNEL_BLOCK;
    dp_kernel_widen(dtype, value + i, block, size);
    for (int64_t k = 0; k < size; ++k)
      block[k] /= divisor;
    dp_kernel_narrow(dtype, block, value + i, size);
  }
}

/* value[i] /= divisor for `count` elements. */
static void divide(dp_dtype dtype, void *value, int64_t count, int64_t divisor) {
  float single = (float)divisor;
  double wide = (double)divisor;
  dp_binary_span span = {.inner = count, .outer = 1, .a_inner = 1, .b_inner = 0};
  if (dp_kernel_is_short_float(dtype))
    divide_short(dtype, value, count, single);
  else if (divisor != 1)
    dp_binary_table()->fn[DP_BINARY_div][dtype](
        value, dtype == DP_DOUBLE ? (const void *)&wide : (const void *)&single, value, &span);
}

/* Divides each row by the number of gradients that had it. */
static void take_mean(taker *taken) {
  dp_tensor *value = &taken->value;
  if (!taken->accumulator->is_sparse) {
    divide(value->dtype, value->data, value->shape.elements, taken->count);
    return;
  }
  int64_t elements = dp_shape_product(&value->shape, 1, value->shape.rank);
  size_t bytes = (size_t)elements * dp_dtype_size(value->dtype);
  for (int64_t i = 0; i < taken->rows.count; ++i)
    divide(value->dtype, (char *)value->data + (size_t)i * bytes, elements, taken->rows.counts[i]);
}

static void end(taker *taken) {
  dp_accumulator *accumulator = taken->accumulator;
  dp_tensor indices = {0}, shape = {0};
  dp_status *status = taken->status;
  if (!status && accumulator->takes_mean)
    take_mean(taken);
  if (!status && accumulator->is_sparse)
    status =
        dp_sparse_sum_tensors(&taken->rows, &taken->value, &accumulator->shape, &indices, &shape);
  taken->done(taken->arg, status, &taken->value, &indices, &shape);
  dp_tensor_deinit(&indices);
  dp_tensor_deinit(&shape);
  dp_tensor_deinit(&taken->value);
  dp_sparse_sum_deinit(&taken->rows);
  dp_free(taken);
}

static void end_cancelled(dp_waiter *waiter) {
  taker *gone = (taker *)waiter;
  gone->status = dp_status_create(DP_CANCELLED, "TakeGrad operation was cancelled");
  end(gone);
}

/* Gives sums to waiting takers, as long as there are enough gradients. */
static void flush(dp_accumulator *accumulator) {
  dp_waiters ended = {0};
  pthread_mutex_lock(&accumulator->lock);
  taker *first;
  while ((first = (taker *)accumulator->takers.first) != NULL &&
         accumulator->count >= first->wanted) {
    first->count = accumulator->count;
    first->value = dp_tensor_take(&accumulator->value);
    first->rows = accumulator->rows;
    accumulator->rows = (dp_sparse_sum){0};
    accumulator->count = 0;
    ++accumulator->step;
    dp_waiters_take(&accumulator->takers, &first->waiter);
    dp_waiters_collect(&ended, &first->waiter);
  }
  pthread_mutex_unlock(&accumulator->lock);
  for (dp_waiter *waiter = ended.first, *next; waiter; waiter = next) {
    next = waiter->next;
    dp_waiter_settle(waiter);
    end((taker *)waiter);
  }
}

void dp_accumulator_take(dp_accumulator *accumulator, int64_t wanted, dp_cancel *cancel,
                         dp_accumulator_done_fn done, void *arg) {
  taker *made = DP_NEW(taker);
  made->accumulator = accumulator;
  made->wanted = wanted;
  made->done = done;
  made->arg = arg;
  if (wanted <= 0) {
    made->status =
        DP_INVALID("Argument num_required must be positive, but was %lld", (long long)wanted);
    end(made);
    return;
  }
  dp_resource_retain(accumulator);
  pthread_mutex_lock(&accumulator->lock);
  bool is_live = dp_waiters_join(&accumulator->takers, &made->waiter, cancel);
  pthread_mutex_unlock(&accumulator->lock);
  if (is_live)
    flush(accumulator);
  else
    end_cancelled(&made->waiter);
  dp_resource_release(accumulator);
}

/* ---- Adding ---- */
static dp_status *check_shape(const dp_accumulator *accumulator, const dp_shape *shape) {
  if (accumulator->count > 0 && !dp_shape_equal(&accumulator->value.shape, shape))
    return DP_INVALID("Shape mismatch: expected %s, got %s",
                      dp_shape_text(&accumulator->value.shape), dp_shape_text(shape));
  if (!dp_partial_shape_accepts(&accumulator->shape, shape))
    return DP_INVALID("Shape mismatch: expected %s, got %s",
                      dp_partial_shape_text(&accumulator->shape), dp_shape_text(shape));
  return NULL;
}

/* With the lock held. */
static dp_status *add_dense(dp_accumulator *accumulator, const dp_tensor *gradient) {
  DP_RETURN_IF_ERROR(check_shape(accumulator, &gradient->shape));
  if (accumulator->count > 0)
    return dp_combine_run(&accumulator->add, accumulator->value.data, gradient->data,
                          gradient->shape.elements);
  dp_tensor copy;
  DP_RETURN_IF_ERROR(dp_tensor_clone(gradient, &copy));
  dp_tensor_deinit(&accumulator->value);
  accumulator->value = copy;
  return NULL;
}

dp_status *dp_accumulator_add(dp_accumulator *accumulator, int64_t step,
                              const dp_tensor *gradient) {
  pthread_mutex_lock(&accumulator->lock);
  bool is_fresh = step >= accumulator->step;
  dp_status *status = is_fresh ? add_dense(accumulator, gradient) : NULL;
  accumulator->count += is_fresh && !status;
  pthread_mutex_unlock(&accumulator->lock);
  flush(accumulator);
  return status;
}

dp_status *dp_accumulator_add_rows(dp_accumulator *accumulator, int64_t step,
                                   const dp_tensor *indices, const dp_tensor *values,
                                   const dp_tensor *shape) {
  pthread_mutex_lock(&accumulator->lock);
  bool is_fresh = step >= accumulator->step;
  dp_status *status = is_fresh ? dp_sparse_sum_check(accumulator, indices, values, shape) : NULL;
  if (is_fresh && !status)
    status = dp_sparse_sum_add(accumulator, indices, values);
  accumulator->count += is_fresh && !status;
  pthread_mutex_unlock(&accumulator->lock);
  flush(accumulator);
  return status;
}

/* ---- Questions ---- */
void dp_accumulator_set_step(dp_accumulator *accumulator, int64_t step) {
  pthread_mutex_lock(&accumulator->lock);
  if (step < accumulator->step)
    DP_LOG(KERNELS, WARN, "accumulator %s goes back from step %lld to %lld", accumulator->name,
           (long long)accumulator->step, (long long)step);
  accumulator->step = step;
  pthread_mutex_unlock(&accumulator->lock);
}

int64_t dp_accumulator_count(dp_accumulator *accumulator) {
  pthread_mutex_lock(&accumulator->lock);
  int64_t count = accumulator->count;
  pthread_mutex_unlock(&accumulator->lock);
  return count;
}
