/* Ids of steps with collectives. Masters of several tasks, each with a client of its own, run their
 * parts of one collective in steps that must have the same id. The task that leads the groups keeps
 * the next id for each graph key; this master asks for it once, then counts on, and asks again when
 * a step has failed here. After such a failure the same id may come back.
 *
 * Any thread. A question holds a scope of its own; the asking run holds plan and session. */
#include "collective/collective.h"
#include "master/master_internal.h"

typedef struct id_question {
  step_plan *plan;
  dp_cancel *scope;
  step_id_fn done;
  void *arg;
} id_question;

static dp_collectives *collectives_of(const step_plan *plan) {
  return dp_worker_collectives(plan->session->master->worker);
}

static bool leads(const master_session *session) {
  return strcmp(session->leader, session->task) == 0 || !*session->leader;
}

static void answer(id_question *question, dp_status *status) {
  int64_t id = 0;
  if (!status && !dp_collectives_begin_step(collectives_of(question->plan),
                                            question->plan->collective_key, &id))
    status = dp_status_create(DP_ABORTED, "the next step id was lost by a step that failed");
  step_id_fn done = question->done;
  void *arg = question->arg;
  dp_cancel_release(question->scope);
  dp_free(question);
  done(arg, status, id);
}

static void leader_answered(void *arg, dp_status *status, const void *response) {
  id_question *question = arg;
  const Tensorflow__GetStepSequenceResponse *sequences = response;
  if (status)
    status = dp_status_annotate(status, "The leader of collective groups did not tell the next "
                                        "step id");
  else if (sequences->n_step_sequence != 1)
    status = dp_status_create(DP_INTERNAL, "%s gave %zu step sequences instead of one",
                              question->plan->session->leader, sequences->n_step_sequence);
  else
    dp_collectives_set_step(collectives_of(question->plan), question->plan->collective_key,
                            sequences->step_sequence[0]->next_step_id);
  answer(question, status);
}

static void ask_leader(id_question *question, int64_t deadline) {
  master_session *session = question->plan->session;
  dp_worker_peer *peer;
  dp_status *status = session->master->cluster->find(session->cluster, session->leader, &peer);
  if (status) {
    answer(question, dp_status_annotate(status, "The leader of collective groups"));
    return;
  }
  Tensorflow__GetStepSequenceRequest request = TENSORFLOW__GET_STEP_SEQUENCE_REQUEST__INIT;
  request.n_graph_key = 1;
  request.graph_key = &question->plan->collective_key;
  peer->ops->call(peer, DP_WORKER_GET_STEP_SEQUENCE, &request, deadline, question->scope,
                  leader_answered, question);
}

void dp_master_step_begin(step_plan *plan, dp_cancel *cancel, int64_t deadline, step_id_fn done,
                          void *arg) {
  int64_t id;
  if (plan->collective_key == 0) {
    done(arg, NULL, dp_master_step_id(plan->session));
    return;
  }
  if (leads(plan->session))
    dp_collectives_next_step(collectives_of(plan), plan->collective_key);
  if (dp_collectives_begin_step(collectives_of(plan), plan->collective_key, &id)) {
    done(arg, NULL, id);
    return;
  }
  id_question *question = DP_NEW(id_question);
  *question = (id_question){plan, dp_cancel_create(cancel, DP_FOREVER), done, arg};
  ask_leader(question, deadline);
}

void dp_master_step_retire(step_plan *plan, const dp_status *outcome) {
  if (plan->collective_key != 0)
    dp_collectives_end_step(collectives_of(plan), plan->collective_key,
                            !outcome || leads(plan->session));
}
