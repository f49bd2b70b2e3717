/* The board (board.h): a table of entries under one lock. An entry in the table is a post or a take
 * that waits for its counterpart. A thread that removes an entry from the table under the lock must
 * answer it, with no lock held. Before that it deregisters the entry's cancel callback, which waits
 * until a running one has returned. */
#include "collective/board.h"

#include <pthread.h>
#include "base/map.h"
#include "base/memory.h"
#include "base/refcount.h"

typedef struct entry {
  dp_board *board;
  char *key;
  bool is_listed;
  bool is_post;
  dp_tensor value; /* of a post */
  dp_board_posted_fn posted;
  dp_board_value_fn taken;
  void *arg;
  dp_cancel *cancel;
  dp_cancel_token token;
} entry;

struct dp_board {
  dp_refcount references;
  pthread_mutex_t lock;
  dp_map *entries;
  dp_status *aborted;
};

dp_board *dp_board_create(void) {
  dp_board *board = DP_NEW(dp_board);
  dp_refcount_init(&board->references);
  pthread_mutex_init(&board->lock, NULL);
  board->entries = dp_map_create();
  return board;
}

dp_board *dp_board_retain(dp_board *board) {
  dp_refcount_retain(&board->references);
  return board;
}

void dp_board_release(dp_board *board) {
  if (!board || !dp_refcount_release(&board->references))
    return;
  dp_board_abort(board, dp_status_create(DP_CANCELLED, "the step has ended"));
  dp_status_release(board->aborted);
  dp_map_destroy(board->entries);
  pthread_mutex_destroy(&board->lock);
  dp_free(board);
}

/* ---- Entries ---- */

static void free_entry(entry *one) {
  dp_tensor_deinit(&one->value);
  dp_cancel_release(one->cancel);
  dp_free(one->key);
  dp_free(one);
}

/* Calls the callback. Consumes `status` and the entry, which is not in the table any more. */
static void answer(entry *one, dp_status *status, dp_tensor *value) {
  if (one->is_post)
    one->posted(one->arg, status);
  else
    one->taken(one->arg, status, value);
  free_entry(one);
}

static void settle(entry *one) {
  if (one->cancel)
    dp_cancel_deregister(one->cancel, one->token);
}

static void end(entry *one, dp_status *status) {
  dp_tensor nothing = {0};
  answer(one, status, &nothing);
}

static void on_cancel(void *arg, const dp_status *why) {
  entry *one = arg;
  pthread_mutex_lock(&one->board->lock);
  bool is_mine = one->is_listed;
  if (is_mine)
    dp_map_remove(one->board->entries, one->key);
  one->is_listed = false;
  pthread_mutex_unlock(&one->board->lock);
  if (is_mine)
    end(one, dp_status_retain(why));
}

static entry *make_entry(dp_board *board, const char *key, dp_cancel *cancel, void *arg) {
  entry *one = DP_NEW(entry);
  one->board = board;
  one->key = dp_strdup(key);
  one->cancel = cancel ? dp_cancel_retain(cancel) : NULL;
  one->arg = arg;
  return one;
}

/* With the lock held: removes the counterpart of `one` from the table and gives it in *other_out,
 * or puts `one` into the table. When the status and *other_out are both NULL, `one` waits now. */
static dp_status *meet(dp_board *board, entry *one, entry **other_out) {
  *other_out = NULL;
  if (board->aborted)
    return dp_status_retain(board->aborted);
  entry *other = dp_map_get(board->entries, one->key);
  if (other && other->is_post == one->is_post)
    return dp_status_create(DP_INTERNAL, "a second %s came for key %s",
                            one->is_post ? "value" : "receiver", one->key);
  if (other) {
    dp_map_remove(board->entries, one->key);
    other->is_listed = false;
    *other_out = other;
    return NULL;
  }
  if (one->cancel && !dp_cancel_register(one->cancel, on_cancel, one, &one->token))
    return dp_cancel_status(one->cancel);
  one->is_listed = true;
  dp_map_put(board->entries, one->key, one);
  return NULL;
}

/* ---- Post, take, abort ---- */

static void bring(dp_board *board, entry *one) {
  entry *other;
  pthread_mutex_lock(&board->lock);
  dp_status *status = meet(board, one, &other);
  pthread_mutex_unlock(&board->lock);
  if (status) {
    end(one, status);
    return;
  }
  if (!other)
    return;
  settle(other);
  entry *post = one->is_post ? one : other, *taker = one->is_post ? other : one;
  dp_tensor value = dp_tensor_take(&post->value);
  answer(taker, NULL, &value);
  dp_tensor_deinit(&value);
  end(post, NULL);
}

void dp_board_post(dp_board *board, const char *key, dp_tensor *value, dp_cancel *cancel,
                   dp_board_posted_fn done, void *arg) {
  entry *one = make_entry(board, key, cancel, arg);
  one->is_post = true;
  one->value = dp_tensor_take(value);
  one->posted = done;
  bring(board, one);
}

void dp_board_take(dp_board *board, const char *key, dp_cancel *cancel, dp_board_value_fn done,
                   void *arg) {
  entry *one = make_entry(board, key, cancel, arg);
  one->taken = done;
  bring(board, one);
}

void dp_board_abort(dp_board *board, dp_status *why) {
  DP_ARRAY(entry *) all = {0};
  const char *key;
  void *one;
  pthread_mutex_lock(&board->lock);
  if (!board->aborted)
    board->aborted = dp_status_retain(why);
  for (size_t at = 0; dp_map_next(board->entries, &at, &key, &one);)
    DP_ARRAY_PUSH(&all, one);
  for (size_t i = 0; i < all.count; i++) {
    dp_map_remove(board->entries, all.items[i]->key);
    all.items[i]->is_listed = false;
  }
  pthread_mutex_unlock(&board->lock);
  for (size_t i = 0; i < all.count; i++) {
    settle(all.items[i]);
    end(all.items[i], dp_status_retain(why));
  }
  dp_status_release(why);
  DP_ARRAY_FREE(&all);
}
