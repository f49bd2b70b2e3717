/* The table of open sessions, by handle.
 *
 * Every step looks its session up here, and steps of different sessions must not wait for each
 * other. So the table is cut into stripes by a hash of the handle, each with a lock of its own that
 * is held for one lookup. Handles are random: sessions spread over the stripes evenly. Walks
 * (status pages, Reset, the collector of unused sessions) visit one stripe after the other.
 *
 * The table holds one reference to each session in it. Any thread. */
#include "master/master_internal.h"

void dp_session_table_init(session_table *table) {
  for (size_t i = 0; i < SESSION_STRIPES; i++) {
    pthread_mutex_init(&table->stripes[i].lock, NULL);
    table->stripes[i].sessions = dp_map_create();
  }
}

void dp_session_table_deinit(session_table *table) {
  for (size_t i = 0; i < SESSION_STRIPES; i++) {
    dp_map_destroy(table->stripes[i].sessions);
    pthread_mutex_destroy(&table->stripes[i].lock);
  }
}

static session_stripe *stripe_of(session_table *table, const char *handle) {
  return &table->stripes[dp_hash_bytes(handle, strlen(handle)) % SESSION_STRIPES];
}

void dp_session_table_add_take(session_table *table, master_session *session) {
  session_stripe *stripe = stripe_of(table, session->handle);
  pthread_mutex_lock(&stripe->lock);
  dp_map_put(stripe->sessions, session->handle, session);
  pthread_mutex_unlock(&stripe->lock);
}

bool dp_session_table_remove(session_table *table, master_session *session) {
  session_stripe *stripe = stripe_of(table, session->handle);
  pthread_mutex_lock(&stripe->lock);
  bool was_there = dp_map_remove(stripe->sessions, session->handle) != NULL;
  pthread_mutex_unlock(&stripe->lock);
  return was_there;
}

master_session *dp_session_table_find(session_table *table, const char *handle) {
  session_stripe *stripe = stripe_of(table, handle);
  pthread_mutex_lock(&stripe->lock);
  master_session *found = dp_map_get(stripe->sessions, handle);
  if (found)
    dp_refcount_retain(&found->references);
  pthread_mutex_unlock(&stripe->lock);
  return found;
}

master_session *dp_session_table_pick(session_table *table, session_pick_fn wants, void *arg) {
  master_session *picked = NULL;
  for (size_t i = 0; i < SESSION_STRIPES && !picked; i++) {
    session_stripe *stripe = &table->stripes[i];
    pthread_mutex_lock(&stripe->lock);
    const char *handle;
    void *session;
    for (size_t at = 0; !picked && dp_map_next(stripe->sessions, &at, &handle, &session);)
      if (!wants || wants(arg, session))
        picked = session;
    if (picked)
      dp_refcount_retain(&picked->references);
    pthread_mutex_unlock(&stripe->lock);
  }
  return picked;
}

void dp_session_table_visit(session_table *table, session_visit_fn visit, void *arg) {
  for (size_t i = 0; i < SESSION_STRIPES; i++) {
    session_stripe *stripe = &table->stripes[i];
    pthread_mutex_lock(&stripe->lock);
    const char *handle;
    void *session;
    for (size_t at = 0; dp_map_next(stripe->sessions, &at, &handle, &session);)
      visit(arg, session);
    pthread_mutex_unlock(&stripe->lock);
  }
}

size_t dp_session_table_count(session_table *table) {
  size_t count = 0;
  for (size_t i = 0; i < SESSION_STRIPES; i++) {
    pthread_mutex_lock(&table->stripes[i].lock);
    count += dp_map_count(table->stripes[i].sessions);
    pthread_mutex_unlock(&table->stripes[i].lock);
  }
  return count;
}
