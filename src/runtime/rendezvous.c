/* The rendezvous of one step: a hash table from key to what came first, values or receivers.
 *
 * A sender of a reference parks the variable. It is read when a receiver takes it, after the
 * table's lock is released (deliver).
 *
 * One lock guards the table. An entry holds either values that nobody has asked for yet or
 * receivers that wait, never both. A receiver that waits is registered with its cancel scope; who
 * takes it off the table under the lock (a sender, the scope, an abort) is the one who answers it,
 * and he first deregisters it, so that its memory stays until no callback can still look at it. */
#include "runtime/rendezvous.h"

#include <pthread.h>
#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/refcount.h"
#include "runtime/value.h"

typedef struct waiter waiter;
typedef struct parked_value parked_value;
typedef struct entry entry;

struct waiter {
  waiter *next;
  dp_rendezvous *rendezvous;
  entry *entry; /* NULL when not (or no longer) on the table */
  dp_cancel *cancel;
  dp_cancel_token token;
  bool cancelled; /* the scope spoke before the receiver was on the table */
  dp_rendezvous_done_fn done;
  void *arg;
  int64_t since;
};

struct parked_value {
  parked_value *next;
  dp_value value;
  bool is_dead;
};

struct entry {
  entry *next; /* in its bucket */
  uint64_t hash;
  parked_value *values;
  waiter *waiters;
  size_t key_length;
  char key[];
};

#define BUCKETS 32

struct dp_rendezvous {
  dp_refcount references;
  int64_t step_id;
  const dp_rendezvous_remote_ops *ops;
  void *remote;
  pthread_mutex_t lock;
  dp_status *aborted;
  entry *buckets[BUCKETS];
};

dp_rendezvous *dp_rendezvous_create(int64_t step_id, const dp_rendezvous_remote_ops *ops,
                                    void *remote) {
  dp_rendezvous *rendezvous = DP_NEW(dp_rendezvous);
  dp_refcount_init(&rendezvous->references);
  rendezvous->step_id = step_id;
  rendezvous->ops = ops;
  rendezvous->remote = remote;
  pthread_mutex_init(&rendezvous->lock, NULL);
  return rendezvous;
}

dp_rendezvous *dp_rendezvous_retain(dp_rendezvous *rendezvous) {
  dp_refcount_retain(&rendezvous->references);
  return rendezvous;
}

void dp_rendezvous_release(dp_rendezvous *rendezvous) {
  if (!rendezvous || !dp_refcount_release(&rendezvous->references))
    return;
  dp_rendezvous_abort(rendezvous, dp_status_create(DP_CANCELLED, "the step has ended"));
  dp_status_release(rendezvous->aborted);
  pthread_mutex_destroy(&rendezvous->lock);
  dp_free(rendezvous);
}

/* ---- The table; all with the lock held ---- */

static entry **find_entry(dp_rendezvous *rendezvous, uint64_t hash, dp_view key) {
  entry **at = &rendezvous->buckets[hash % BUCKETS];
  while (*at && !((*at)->hash == hash && (*at)->key_length == key.length &&
                  memcmp((*at)->key, key.data, key.length) == 0))
    at = &(*at)->next;
  return at;
}

static entry *find_or_add_entry(dp_rendezvous *rendezvous, uint64_t hash, dp_view key) {
  entry **at = find_entry(rendezvous, hash, key);
  if (!*at) {
    entry *added = dp_malloc(sizeof(entry) + key.length);
    *added = (entry){.hash = hash, .key_length = key.length};
    memcpy(added->key, key.data, key.length);
    *at = added;
  }
  return *at;
}

static void drop_entry_if_empty(dp_rendezvous *rendezvous, entry *empty) {
  if (empty->values || empty->waiters)
    return;
  entry **at = &rendezvous->buckets[empty->hash % BUCKETS];
  while (*at != empty)
    at = &(*at)->next;
  *at = empty->next;
  dp_free(empty);
}

static waiter *pop_waiter(dp_rendezvous *rendezvous, entry *from) {
  waiter *first = from->waiters;
  from->waiters = first->next;
  first->entry = NULL;
  drop_entry_if_empty(rendezvous, from);
  return first;
}

static void unlink_waiter(dp_rendezvous *rendezvous, waiter *waiting) {
  waiter **at = &waiting->entry->waiters;
  while (*at != waiting)
    at = &(*at)->next;
  *at = waiting->next;
  drop_entry_if_empty(rendezvous, waiting->entry);
  waiting->entry = NULL;
}

static bool pop_value(dp_rendezvous *rendezvous, uint64_t hash, dp_view key, dp_value *value_out,
                      bool *is_dead_out) {
  entry *found = *find_entry(rendezvous, hash, key);
  if (!found || !found->values)
    return false;
  parked_value *parked = found->values;
  found->values = parked->next;
  dp_value_move(value_out, &parked->value);
  *is_dead_out = parked->is_dead;
  dp_free(parked);
  drop_entry_if_empty(rendezvous, found);
  return true;
}

static void park_value(entry *at, dp_value *value, bool is_dead) {
  parked_value **last = &at->values;
  while (*last)
    last = &(*last)->next;
  *last = DP_NEW(parked_value);
  dp_value_move(&(*last)->value, value);
  (*last)->is_dead = is_dead;
}

static void park_waiter(entry *at, waiter *waiting) {
  waiter **last = &at->waiters;
  while (*last)
    last = &(*last)->next;
  *last = waiting;
  waiting->next = NULL;
  waiting->entry = at;
}

/* ---- Handing a value to its receiver; no lock held ---- */

/* A receiver whose variable is just being written. */
typedef struct late_read {
  dp_variable *variable; /* retained */
  dp_rendezvous_done_fn done;
  void *arg;
} late_read;

static void read_now(dp_variable *variable, dp_rendezvous_done_fn done, void *arg) {
  dp_tensor value = {0};
  dp_status *status = dp_variable_read(variable, &value);
  dp_resource_release(variable);
  done(arg, status, &value, false);
  dp_tensor_deinit(&value);
}

static void read_late(void *arg) {
  late_read *late = arg;
  read_now(late->variable, late->done, late->arg);
  dp_free(late);
}

/* Consumes *value. This may be a thread of the network, which must not wait for an update: the read
 * then goes to a thread that may. */
static void deliver(const dp_rendezvous *rendezvous, dp_value *value, bool is_dead,
                    dp_rendezvous_done_fn done, void *arg) {
  dp_variable *variable = value->reference;
  value->reference = NULL;
  if (variable && dp_variable_try_read(variable, &value->tensor)) {
    dp_resource_release(variable);
    variable = NULL;
  }
  if (!variable) {
    done(arg, NULL, &value->tensor, is_dead);
    dp_tensor_deinit(&value->tensor);
  } else if (rendezvous->ops && rendezvous->ops->run_later) {
    late_read *late = DP_NEW(late_read);
    *late = (late_read){variable, done, arg};
    rendezvous->ops->run_later(rendezvous->remote, read_late, late);
  } else {
    read_now(variable, done, arg);
  }
}

static void free_waiter(waiter *waiting) {
  dp_cancel_release(waiting->cancel);
  dp_free(waiting);
}

/* Consumes `status` or *value. Not for the cancel callback itself, which may not deregister. The
 * waiter must be off the table. */
static void answer_waiter(waiter *waiting, dp_status *status, dp_value *value, bool is_dead) {
  if (waiting->cancel)
    dp_cancel_deregister(waiting->cancel, waiting->token);
  dp_tensor nothing = {0};
  if (status)
    waiting->done(waiting->arg, status, &nothing, false);
  else
    deliver(waiting->rendezvous, value, is_dead, waiting->done, waiting->arg);
  free_waiter(waiting);
}

static void on_cancel(void *arg, const dp_status *why) {
  waiter *waiting = arg;
  dp_rendezvous *rendezvous = waiting->rendezvous;
  pthread_mutex_lock(&rendezvous->lock);
  bool was_waiting = waiting->entry != NULL;
  if (was_waiting)
    unlink_waiter(rendezvous, waiting);
  else
    waiting->cancelled = true;
  pthread_mutex_unlock(&rendezvous->lock);
  if (!was_waiting)
    return;
  dp_tensor nothing = {0};
  waiting->done(waiting->arg, dp_status_retain(why), &nothing, false);
  free_waiter(waiting);
}

/* ---- Send and receive ---- */

static dp_status *send(dp_rendezvous *rendezvous, uint64_t hash, dp_view key, dp_value *value,
                       bool is_dead) {
  pthread_mutex_lock(&rendezvous->lock);
  dp_status *status = dp_status_retain(rendezvous->aborted);
  waiter *waiting = NULL;
  if (!status) {
    entry *at = find_or_add_entry(rendezvous, hash, key);
    if (at->waiters)
      waiting = pop_waiter(rendezvous, at);
    else
      park_value(at, value, is_dead);
  }
  pthread_mutex_unlock(&rendezvous->lock);
  if (waiting)
    answer_waiter(waiting, NULL, value, is_dead);
  dp_value_clear(value);
  return status;
}

/* Takes a parked value, or learns of an abort. True when the receiver can be answered at once. */
static bool receive_at_once(dp_rendezvous *rendezvous, uint64_t hash, dp_view key,
                            dp_status **status_out, dp_value *value_out, bool *is_dead_out) {
  *status_out = dp_status_retain(rendezvous->aborted);
  return *status_out || pop_value(rendezvous, hash, key, value_out, is_dead_out);
}

static waiter *make_waiter(dp_rendezvous *rendezvous, dp_cancel *cancel, dp_rendezvous_done_fn done,
                           void *arg) {
  waiter *waiting = DP_NEW(waiter);
  waiting->rendezvous = rendezvous;
  waiting->cancel = cancel ? dp_cancel_retain(cancel) : NULL;
  waiting->done = done;
  waiting->arg = arg;
  waiting->since = dp_clock_nanos();
  return waiting;
}

/* The slow way: nothing is there yet. The scope hears of the receiver before the table does, so
 * whoever pops it finds the token in place. */
static void receive_later(dp_rendezvous *rendezvous, uint64_t hash, dp_view key, dp_cancel *cancel,
                          dp_rendezvous_done_fn done, void *arg) {
  waiter *waiting = make_waiter(rendezvous, cancel, done, arg);
  dp_value value = {0};
  bool is_dead = false;
  if (cancel && !dp_cancel_register(cancel, on_cancel, waiting, &waiting->token)) {
    done(arg, dp_cancel_status(cancel), &value.tensor, false);
    free_waiter(waiting);
    return;
  }
  dp_status *status = NULL;
  pthread_mutex_lock(&rendezvous->lock);
  bool at_once =
      waiting->cancelled || receive_at_once(rendezvous, hash, key, &status, &value, &is_dead);
  if (!at_once)
    park_waiter(find_or_add_entry(rendezvous, hash, key), waiting);
  pthread_mutex_unlock(&rendezvous->lock);
  if (!at_once)
    return;
  if (waiting->cancelled && !status && !dp_value_is_set(&value))
    status = dp_cancel_status(cancel);
  answer_waiter(waiting, status, &value, is_dead);
}

static void receive(dp_rendezvous *rendezvous, uint64_t hash, dp_view key, dp_cancel *cancel,
                    dp_rendezvous_done_fn done, void *arg) {
  dp_status *status = NULL;
  dp_value value = {0};
  bool is_dead = false;
  pthread_mutex_lock(&rendezvous->lock);
  bool at_once = receive_at_once(rendezvous, hash, key, &status, &value, &is_dead);
  pthread_mutex_unlock(&rendezvous->lock);
  if (!at_once)
    receive_later(rendezvous, hash, key, cancel, done, arg);
  else if (status)
    done(arg, status, &value.tensor, false);
  else
    deliver(rendezvous, &value, is_dead, done, arg);
}

/* ---- By key ---- */

dp_status *dp_rendezvous_send(dp_rendezvous *rendezvous, dp_view key, dp_tensor *value,
                              bool is_dead) {
  dp_value sent = {.tensor = dp_tensor_take(value)};
  return send(rendezvous, dp_hash_bytes(key.data, key.length), key, &sent, is_dead);
}

void dp_rendezvous_receive(dp_rendezvous *rendezvous, dp_view key, dp_cancel *cancel,
                           dp_rendezvous_done_fn done, void *arg) {
  receive(rendezvous, dp_hash_bytes(key.data, key.length), key, cancel, done, arg);
}

/* ---- Along an edge ---- */

typedef struct edge_key {
  dp_view text;
  uint64_t hash;
  dp_text own; /* inside loops */
} edge_key;

static void edge_key_init(edge_key *key, const dp_transfer_edge *edge, uint64_t frame_id,
                          int64_t iteration) {
  *key = (edge_key){.text = {edge->key.data, edge->key.length}, .hash = edge->hash};
  if (frame_id == 0 && iteration == 0)
    return;
  dp_transfer_edge_print_key(edge, frame_id, iteration, &key->own);
  key->text = (dp_view){key->own.data, key->own.length};
  key->hash = dp_hash_bytes(key->own.data, key->own.length);
}

dp_status *dp_rendezvous_send_along(dp_rendezvous *rendezvous, const dp_transfer_edge *edge,
                                    uint64_t frame_id, int64_t iteration, dp_value *value,
                                    bool is_dead) {
  edge_key key;
  edge_key_init(&key, edge, frame_id, iteration);
  dp_status *status = send(rendezvous, key.hash, key.text, value, is_dead);
  dp_text_deinit(&key.own);
  return status;
}

void dp_rendezvous_receive_along(dp_rendezvous *rendezvous, const dp_transfer_edge *edge,
                                 uint64_t frame_id, int64_t iteration, dp_cancel *cancel,
                                 dp_rendezvous_done_fn done, void *arg) {
  edge_key key;
  edge_key_init(&key, edge, frame_id, iteration);
  if (edge->route.is_remote && rendezvous->ops)
    rendezvous->ops->receive(rendezvous->remote, rendezvous->step_id, edge, key.text, cancel, done,
                             arg);
  else
    receive(rendezvous, key.hash, key.text, cancel, done, arg);
  dp_text_deinit(&key.own);
}

/* ---- Abort ---- */

static void drop_values(entry *from) {
  while (from->values) {
    parked_value *value = from->values;
    from->values = value->next;
    dp_value_clear(&value->value);
    dp_free(value);
  }
}

/* Empties the table; all receivers come back as one list. With the lock held. */
static waiter *take_everything(dp_rendezvous *rendezvous) {
  waiter *all = NULL;
  for (int i = 0; i < BUCKETS; i++) {
    while (rendezvous->buckets[i]) {
      entry *gone = rendezvous->buckets[i];
      rendezvous->buckets[i] = gone->next;
      drop_values(gone);
      while (gone->waiters) {
        waiter *waiting = gone->waiters;
        gone->waiters = waiting->next;
        waiting->entry = NULL;
        waiting->next = all;
        all = waiting;
      }
      dp_free(gone);
    }
  }
  return all;
}

void dp_rendezvous_abort(dp_rendezvous *rendezvous, dp_status *why) {
  pthread_mutex_lock(&rendezvous->lock);
  if (rendezvous->aborted) {
    pthread_mutex_unlock(&rendezvous->lock);
    dp_status_release(why);
    return;
  }
  rendezvous->aborted = dp_status_retain(why);
  waiter *all = take_everything(rendezvous);
  pthread_mutex_unlock(&rendezvous->lock);
  while (all) {
    waiter *waiting = all;
    all = waiting->next;
    answer_waiter(waiting, dp_status_retain(why), NULL, false);
  }
  dp_status_release(why);
}

/* ---- Looking in from outside ---- */

typedef struct waiting_key {
  char *key;
  size_t length;
  int64_t since;
} waiting_key;

void dp_rendezvous_visit_waiting(dp_rendezvous *rendezvous, dp_rendezvous_visit_fn visit,
                                 void *arg) {
  DP_ARRAY(waiting_key) keys = {0};
  pthread_mutex_lock(&rendezvous->lock);
  for (int i = 0; i < BUCKETS; i++) {
    for (entry *at = rendezvous->buckets[i]; at; at = at->next) {
      if (at->waiters)
        DP_ARRAY_PUSH(&keys, ((waiting_key){dp_memdup(at->key, at->key_length), at->key_length,
                                            at->waiters->since}));
    }
  }
  pthread_mutex_unlock(&rendezvous->lock);
  int64_t now = dp_clock_nanos();
  for (size_t i = 0; i < keys.count; i++) {
    visit(arg, (dp_view){keys.items[i].key, keys.items[i].length}, now - keys.items[i].since);
    dp_free(keys.items[i].key);
  }
  DP_ARRAY_FREE(&keys);
}
