/* Step ids by graph key. TensorFlow's masters increment the id only when a step has succeeded. Ours
 * do it after every step; after a failure, when tasks may disagree about who has counted, a master
 * outside the leader's task asks the leader again. Steps that run at the same time get different
 * ids: `next` plus the number of running steps. dp_collectives.lock guards the table; any thread
 * may call.
 */
#include "base/philox.h"
#include "collective/collective_internal.h"

typedef struct step_sequence {
  int64_t next;
  int64_t running;
  bool is_valid;
} step_sequence;

/* The 7 highest bits of every step id are 0. */
static const uint64_t step_id_mask = ((uint64_t)1 << 57) - 1;

/* Finds or makes the sequence of a graph key. With the lock held. */
static step_sequence *find(dp_collectives *collectives, int64_t graph_key) {
  step_sequence *sequence = dp_map_get_n(collectives->sequences, &graph_key, sizeof(graph_key));
  if (!sequence) {
    sequence = DP_NEW(step_sequence);
    dp_map_put_n(collectives->sequences, &graph_key, sizeof(graph_key), sequence);
  }
  return sequence;
}

bool dp_collectives_begin_step(dp_collectives *collectives, int64_t graph_key, int64_t *id_out) {
  pthread_mutex_lock(&collectives->lock);
  step_sequence *sequence = find(collectives, graph_key);
  bool is_valid = sequence->is_valid;
  if (is_valid)
    *id_out = (int64_t)((uint64_t)(sequence->next + sequence->running++) & step_id_mask);
  pthread_mutex_unlock(&collectives->lock);
  return is_valid;
}

int64_t dp_collectives_next_step(dp_collectives *collectives, int64_t graph_key) {
  pthread_mutex_lock(&collectives->lock);
  step_sequence *sequence = find(collectives, graph_key);
  if (!sequence->is_valid) {
    sequence->next = (int64_t)(dp_random_seed() & step_id_mask);
    sequence->is_valid = true;
  }
  int64_t next = sequence->next;
  pthread_mutex_unlock(&collectives->lock);
  return next;
}

void dp_collectives_set_step(dp_collectives *collectives, int64_t graph_key, int64_t next_id) {
  pthread_mutex_lock(&collectives->lock);
  step_sequence *sequence = find(collectives, graph_key);
  if (!sequence->is_valid) {
    sequence->next = next_id;
    sequence->is_valid = true;
  }
  pthread_mutex_unlock(&collectives->lock);
}

void dp_collectives_end_step(dp_collectives *collectives, int64_t graph_key, bool is_sure) {
  pthread_mutex_lock(&collectives->lock);
  step_sequence *sequence = find(collectives, graph_key);
  sequence->next = (int64_t)((uint64_t)(sequence->next + 1) & step_id_mask);
  sequence->running--;
  sequence->is_valid = is_sure;
  pthread_mutex_unlock(&collectives->lock);
}
