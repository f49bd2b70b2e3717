/* ParseSequenceExample, ParseSequenceExampleV2 and ParseSingleSequenceExample: Examples that also
 * have feature lists, with one feature per moment in time. A feature of the context is treated as a
 * list of one moment, so that one code reads, checks and writes both. There are three phases: find
 * the features, allocate the outputs, write the values. */
#include "kernels/shared/family.h"

#include <stdio.h>
#include <string.h>
#include "base/map.h"
#include "kernels/data/example_internal.h"
#include "kernels/text/string.h"

typedef enum sequence_form { SPARSE, DENSE, RAGGED, FORMS } sequence_form;

/* The attributes for one form (sparse, dense, ragged) of the context's features or of the lists. */
typedef struct sequence_group {
  int32_t count;
  const dp_attr *types;
  const dp_attr *shapes; /* DENSE */
  const dp_attr *keys;   /* as attributes; NULL: inputs */
  int32_t first_key;     /* input: a scalar per key, or one vector */
  bool is_vector;
  int32_t outputs[3]; /* the first slot of each kind of output; -1: none */
  int32_t defaults;   /* the first input with a default; -1: none */
} sequence_group;

typedef struct sequence_state {
  sequence_group groups[2][FORMS]; /* [0] the context, [1] the lists */
  int32_t names;                   /* input with names for messages */
} sequence_state;

/* A wanted feature, and what was found of it. */
typedef struct wanted_sequence {
  dp_view key;
  sequence_form form;
  bool is_list;
  bool may_lack; /* a dense list that may be missing: it is then empty */
  dp_dtype dtype;
  const dp_partial_shape *shape;
  int64_t stride; /* DENSE: values per moment */
  const dp_tensor *fallback;
  DP_ARRAY(dp_feature) moments; /* of all examples */
  int64_t *lengths;             /* moments of each example */
  int64_t longest, widest;      /* most moments of an example, most values of a moment */
  int64_t total;                /* values */
} wanted_sequence;

typedef struct sequence_run {
  dp_op_context *context;
  const sequence_state *state;
  const dp_tensor *serialized;
  int64_t size;
  bool is_single;
  int32_t count;
  wanted_sequence *wanted;
  dp_map *by_key[2]; /* [0] the context, [1] the lists */
} sequence_run;

/* ---- Reading the node ---- */
/* Outputs and inputs by name; -1 when the op has none of that name. */
static int32_t first_output(const dp_node *node, const char *name) {
  int32_t begin = -1, end;
  dp_status_release(dp_node_output_range(node, name, &begin, &end)); /* untouched on failure */
  return begin;
}

static int32_t first_input(const dp_node *node, const char *name) {
  int32_t begin = -1, end;
  dp_status_release(dp_node_input_range(node, name, &begin, &end)); /* untouched on failure */
  return begin;
}

static const char *const group_names[2] = {"context", "feature_list"};
static const char *const form_names[FORMS] = {"sparse", "dense", "ragged"};

static dp_status *read_types(const dp_node *node, int which, sequence_form form,
                             sequence_group *group) {
  static const char *const attrs[2][FORMS] = {
      {"context_sparse_types", "Tcontext_dense", "context_ragged_value_types"},
      {"feature_list_sparse_types", "feature_list_dense_types", "feature_list_ragged_value_types"}};
  if (!dp_node_attr(node, attrs[which][form]))
    return NULL;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, attrs[which][form], DP_ATTR_LIST_TYPE, &group->types));
  group->count = group->types->count;
  if (form != DENSE)
    return NULL;
  const char *shapes = which == 0 ? "context_dense_shapes" : "feature_list_dense_shapes";
  DP_RETURN_IF_ERROR(dp_node_get_list(node, shapes, DP_ATTR_LIST_SHAPE, &group->shapes));
  if (group->shapes->count != group->count)
    return DP_INVALID("%s must have %d elements, not %d", shapes, group->count,
                      group->shapes->count);
  for (int32_t i = 0; i < group->count; ++i)
    if (!dp_partial_shape_is_known(&group->shapes->shapes[i]))
      return DP_INVALID("%s[%d] is not fully defined: %s", shapes, i,
                        dp_partial_shape_text(&group->shapes->shapes[i]));
  return NULL;
}

static dp_status *read_group(const dp_node *node, int which, sequence_form form,
                             sequence_group *group) {
  static const char *const parts[FORMS][3] = {
      {"indices", "values", "shapes"}, {"values", "lengths", NULL}, {"values", "splits", "inner"}};
  char name[64];
  DP_RETURN_IF_ERROR(read_types(node, which, form, group));
  snprintf(name, sizeof name, "%s_%s_keys", group_names[which], form_names[form]);
  if (dp_node_attr(node, name)) {
    DP_RETURN_IF_ERROR(dp_node_get_list(node, name, DP_ATTR_LIST_STRING, &group->keys));
    if (group->keys->count != group->count)
      return DP_INVALID("%s must have %d elements, not %d", name, group->count, group->keys->count);
  }
  group->first_key = first_input(node, name);
  group->is_vector = strcmp(node->op->name, "ParseSequenceExampleV2") == 0;
  for (int i = 0; i < 3; ++i) {
    const char *part = parts[form][i];
    if (form == RAGGED && i == 1)
      part = which == 0 ? "row_splits" : "outer_splits";
    else if (form == RAGGED && i == 2)
      part = which == 0 ? NULL : "inner_splits";
    snprintf(name, sizeof name, "%s_%s_%s", group_names[which], form_names[form],
             part ? part : "none");
    group->outputs[i] = part ? first_output(node, name) : -1;
  }
  group->defaults = form == DENSE && which == 0 ? first_input(node, "context_dense_defaults") : -1;
  return NULL;
}

static dp_status *sequence_create(const dp_kernel_setup *setup, void *memory) {
  sequence_state *state = memory;
  for (int which = 0; which < 2; ++which)
    for (int form = 0; form < FORMS; ++form)
      DP_RETURN_IF_ERROR(
          read_group(setup->node, which, (sequence_form)form, &state->groups[which][form]));
  state->names = first_input(setup->node, "debug_name");
  return NULL;
}

/* ---- What is wanted ---- */
static dp_status *read_key(const sequence_run *run, const sequence_group *group, int32_t index,
                           dp_view *key_out) {
  if (group->keys) {
    *key_out = group->keys->strings[index];
    return NULL;
  }
  const dp_tensor *keys =
      dp_op_input(run->context, group->first_key + (group->is_vector ? 0 : index));
  int64_t element = group->is_vector ? index : 0;
  if (keys->shape.rank != group->is_vector || keys->shape.elements <= element)
    return DP_INVALID("Expected keys in a %s with enough elements, got shape: %s",
                      group->is_vector ? "vector" : "scalar", dp_shape_text(&keys->shape));
  *key_out = dp_string_at(keys, element);
  return NULL;
}

/* Whether a list may be missing: the input has one bool per list, or the lists' names. */
static dp_status *may_lack(const sequence_run *run, int32_t index, dp_view key, bool *out) {
  static const char name[] = "feature_list_dense_missing_assumed_empty";
  const dp_node *node = run->context->node;
  const dp_attr *names;
  *out = false;
  if (dp_node_attr(node, name)) {
    DP_RETURN_IF_ERROR(dp_node_get_list(node, name, DP_ATTR_LIST_STRING, &names));
    for (int32_t i = 0; i < names->count; ++i)
      *out = *out || dp_view_equal(names->strings[i], key);
    return NULL;
  }
  const dp_tensor *tensor = dp_op_input(run->context, first_input(node, name));
  if (tensor->dtype == DP_BOOL) {
    if (tensor->shape.elements <= index)
      return DP_INVALID("%s has too few elements: %s", name, dp_shape_text(&tensor->shape));
    *out = ((const bool *)tensor->data)[index];
    return NULL;
  }
  for (int64_t i = 0; i < tensor->shape.elements; ++i)
    *out = *out || dp_view_equal(dp_string_at(tensor, i), key);
  return NULL;
}

static dp_status *set_dense(const sequence_run *run, const sequence_group *group, int32_t index,
                            wanted_sequence *wanted) {
  wanted->shape = &group->shapes->shapes[index];
  wanted->stride = 1;
  for (int32_t i = 0; i < wanted->shape->rank; ++i)
    if (__builtin_mul_overflow(wanted->stride, wanted->shape->dims[i], &wanted->stride))
      return DP_INVALID("a dense shape is too large: %s", dp_partial_shape_text(wanted->shape));
  if (wanted->is_list)
    return may_lack(run, index, wanted->key, &wanted->may_lack);
  wanted->fallback = dp_op_input(run->context, group->defaults + index);
  if (wanted->fallback->shape.elements > 0 &&
      !dp_partial_shape_accepts(wanted->shape, &wanted->fallback->shape))
    return dp_node_is(run->context->node, "ParseSingleSequenceExample")
               ? DP_INVALID("def_value[%d].shape() == %s != context_dense_shapes_[%d] == %s", index,
                            dp_shape_text(&wanted->fallback->shape), index,
                            dp_partial_shape_text(wanted->shape))
               : DP_INVALID("default_value[%d].shape() == %s != context_dense_shapes[%d] == %s",
                            index, dp_shape_text(&wanted->fallback->shape), index,
                            dp_partial_shape_text(wanted->shape));
  return NULL;
}

static dp_status *read_wanted(sequence_run *run) {
  int32_t k = 0;
  for (int which = 0; which < 2; ++which)
    for (int form = 0; form < FORMS; ++form) {
      const sequence_group *group = &run->state->groups[which][form];
      for (int32_t i = 0; i < group->count; ++i, ++k) {
        wanted_sequence *wanted = &run->wanted[k];
        wanted->form = (sequence_form)form;
        wanted->is_list = which == 1;
        wanted->dtype = (dp_dtype)group->types->types[i];
        wanted->lengths = DP_NEW_ARRAY(int64_t, (size_t)run->size + 1);
        DP_RETURN_IF_ERROR(read_key(run, group, i, &wanted->key));
        if (form == DENSE)
          DP_RETURN_IF_ERROR(set_dense(run, group, i, wanted));
        dp_map_put_n(run->by_key[which], wanted->key.data, wanted->key.length, wanted);
      }
    }
  return NULL;
}

/* ---- Finding ---- */
static dp_view name_of(const sequence_run *run, int64_t example) {
  if (run->state->names >= 0) {
    const dp_tensor *names = dp_op_input(run->context, run->state->names);
    if (names->shape.elements > example)
      return dp_string_at(names, example);
  }
  return (dp_view){"<unknown>", 9};
}

/* Refuses a feature; in a list, the message names its index. */
static dp_status *refuse(const sequence_run *run, int64_t example, const wanted_sequence *wanted,
                         const char *what) {
  dp_view name = name_of(run, example), key = wanted->key;
  if (!wanted->is_list)
    return DP_INVALID("Name: %.*s, Context feature: %.*s.  %s", (int)name.length, name.data,
                      (int)key.length, key.data, what);
  return DP_INVALID("Name: %.*s, Feature list: %.*s, Index: %lld.  %s", (int)name.length, name.data,
                    (int)key.length, key.data, (long long)wanted->lengths[example], what);
}

static dp_status *refuse_size(const sequence_run *run, int64_t example,
                              const wanted_sequence *wanted, int64_t count) {
  dp_view name = name_of(run, example);
  return DP_INVALID("Name: %.*s, Key: %.*s, Index: %lld.  Number of %s values != expected.  values "
                    "size: %lld but output shape: %s",
                    (int)name.length, name.data, (int)wanted->key.length, wanted->key.data,
                    (long long)wanted->lengths[example], dp_dtype_name(wanted->dtype),
                    (long long)count, dp_partial_shape_text(wanted->shape));
}

static dp_status *refuse_missing(const sequence_run *run, int64_t example,
                                 const wanted_sequence *wanted) {
  dp_view name = name_of(run, example), key = wanted->key;
  bool is_alone = dp_node_is(run->context->node, "ParseSingleSequenceExample");
  if (!wanted->is_list && !is_alone)
    return DP_INVALID("Inconsistent max number of elements for feature %.*s: expected %lld, but "
                      "found 0",
                      (int)key.length, key.data, (long long)wanted->stride);
  return DP_INVALID("Name: %.*s, %s '%.*s' is required but could not be found.%s", (int)name.length,
                    name.data, wanted->is_list ? "Feature list" : "Context feature",
                    (int)key.length, key.data,
                    wanted->is_list ? "  Did you mean to include it in "
                                      "feature_list_dense_missing_assumed_empty or "
                                      "feature_list_dense_defaults?"
                                    : "");
}

static dp_status *add_moment(const sequence_run *run, int64_t example, wanted_sequence *wanted,
                             dp_view bytes) {
  dp_feature feature;
  if (!dp_feature_parse(bytes, &feature))
    return refuse(run, example, wanted, "Could not parse the feature.");
  if (feature.dtype && feature.dtype != wanted->dtype) {
    char what[96];
    snprintf(what, sizeof what, "Data types don't match. Expected type: %s",
             dp_dtype_name(wanted->dtype));
    return refuse(run, example, wanted, what);
  }
  if (wanted->form == DENSE && feature.count != wanted->stride &&
      (feature.dtype || wanted->is_list))
    return refuse_size(run, example, wanted, feature.count);
  DP_ARRAY_PUSH(&wanted->moments, feature);
  ++wanted->lengths[example];
  wanted->total += feature.count;
  wanted->widest = feature.count > wanted->widest ? feature.count : wanted->widest;
  return NULL;
}

static dp_status *add_list(const sequence_run *run, int64_t example, wanted_sequence *wanted,
                           dp_view bytes) {
  dp_message_field field;
  while (dp_message_next(&bytes, &field))
    if (field.number == 1 && field.type == DP_MESSAGE_BYTES)
      DP_RETURN_IF_ERROR(add_moment(run, example, wanted, field.bytes));
  return bytes.length == 0 ? NULL
                           : refuse(run, example, wanted, "Could not parse the feature list.");
}

/* Adds a missing feature: one empty moment in the context, nothing in a list. */
static dp_status *add_missing(const sequence_run *run, int64_t example, wanted_sequence *wanted) {
  if (wanted->form == DENSE &&
      (wanted->is_list ? !wanted->may_lack : wanted->fallback->shape.elements == 0))
    return refuse_missing(run, example, wanted);
  return wanted->is_list ? NULL : add_moment(run, example, wanted, (dp_view){"", 0});
}

static dp_status *find_all(const sequence_run *run, int64_t example, int which, dp_view *values) {
  for (int32_t k = 0; k < run->count; ++k) {
    wanted_sequence *wanted = &run->wanted[k];
    if (wanted->is_list != (which == 1))
      continue;
    if (!values[k].data)
      DP_RETURN_IF_ERROR(add_missing(run, example, wanted));
    else if (which == 1)
      DP_RETURN_IF_ERROR(add_list(run, example, wanted, values[k]));
    else
      DP_RETURN_IF_ERROR(add_moment(run, example, wanted, values[k]));
    int64_t length = wanted->lengths[example];
    wanted->longest = length > wanted->longest ? length : wanted->longest;
  }
  return NULL;
}

static dp_status *find_features(const sequence_run *run, int64_t example, int which,
                                dp_view *values) {
  dp_feature_entries entries = {0};
  dp_view bytes = dp_string_at(run->serialized, example);
  memset(values, 0, sizeof(dp_view) * (size_t)run->count);
  bool fits = dp_feature_entries_parse(bytes, (uint32_t)which + 1, &entries);
  for (size_t i = 0; fits && i < entries.count; ++i) {
    dp_feature_entry entry = entries.items[i];
    wanted_sequence *wanted = dp_map_get_n(run->by_key[which], entry.key.data, entry.key.length);
    if (wanted)
      values[wanted - run->wanted] = entry.value;
  }
  dp_status *status = fits ? find_all(run, example, which, values)
                           : DP_INVALID("Invalid protocol message input, example %lld is no "
                                        "SequenceExample",
                                        (long long)example);
  DP_ARRAY_FREE(&entries);
  return status;
}

/* ---- Outputs ---- */
static void *element(const dp_tensor *tensor, int64_t index) {
  return (char *)tensor->data + (size_t)index * dp_dtype_size(tensor->dtype);
}

/* Writes the values of all moments one behind the other. */
static dp_status *write_values(const sequence_run *run, const wanted_sequence *wanted,
                               int32_t output) {
  dp_shape shape = dp_shape_vector(wanted->total);
  dp_tensor *values;
  int64_t done = 0;
  DP_RETURN_IF_ERROR(dp_op_allocate(run->context, output, &shape, &values));
  for (size_t i = 0; i < wanted->moments.count; ++i) {
    const dp_feature *feature = &wanted->moments.items[i];
    if (feature->count > 0)
      DP_RETURN_IF_ERROR(dp_feature_copy(feature, element(values, done)));
    done += feature->count;
  }
  return NULL;
}

/* Coordinates: the example in a batch, the moment in a list, the place in the feature. */
static dp_status *output_sparse(const sequence_run *run, const wanted_sequence *wanted,
                                const int32_t *outputs, int32_t index) {
  int64_t rank = !run->is_single + wanted->is_list + 1;
  dp_shape matrix, vector = dp_shape_vector(rank);
  dp_tensor *indices, *shape;
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){wanted->total, rank}, &matrix));
  DP_RETURN_IF_ERROR(dp_op_allocate(run->context, outputs[0] + index, &matrix, &indices));
  DP_RETURN_IF_ERROR(write_values(run, wanted, outputs[1] + index));
  DP_RETURN_IF_ERROR(dp_op_allocate(run->context, outputs[2] + index, &vector, &shape));
  int64_t *sizes = shape->data, *to = indices->data;
  if (!run->is_single)
    *sizes++ = run->size;
  if (wanted->is_list)
    *sizes++ = wanted->longest;
  *sizes = wanted->widest;
  const dp_feature *feature = wanted->moments.items;
  for (int64_t example = 0; example < run->size; ++example)
    for (int64_t moment = 0; moment < wanted->lengths[example]; ++moment, ++feature)
      for (int64_t i = 0; i < feature->count; ++i) {
        if (!run->is_single)
          *to++ = example;
        if (wanted->is_list)
          *to++ = moment;
        *to++ = i;
      }
  return NULL;
}

static dp_status *output_lengths(const sequence_run *run, const wanted_sequence *wanted,
                                 int32_t output) {
  dp_shape shape = run->is_single ? dp_shape_scalar() : dp_shape_vector(run->size);
  dp_tensor *lengths;
  DP_RETURN_IF_ERROR(dp_op_allocate(run->context, output, &shape, &lengths));
  memcpy(lengths->data, wanted->lengths, (size_t)run->size * sizeof(int64_t));
  return NULL;
}

/* Lists are padded with zeros, or empty strings, to the longest. */
static dp_status *output_dense(const sequence_run *run, const wanted_sequence *wanted,
                               const int32_t *outputs, int32_t index) {
  int64_t dims[DP_MAX_RANK];
  int32_t rank = 0;
  dp_shape shape;
  dp_tensor *values;
  if (wanted->shape->rank + 2 > DP_MAX_RANK)
    return DP_INVALID("a dense shape has too many dimensions");
  if (!run->is_single)
    dims[rank++] = run->size;
  if (wanted->is_list)
    dims[rank++] = wanted->longest;
  for (int32_t i = 0; i < wanted->shape->rank; ++i)
    dims[rank++] = wanted->shape->dims[i];
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(run->context, outputs[0] + index, &shape, &values));
  if (values->dtype != DP_STRING)
    memset(values->data, 0, dp_tensor_bytes(values));
  int64_t row = wanted->is_list ? wanted->longest * wanted->stride : wanted->stride;
  const dp_feature *feature = wanted->moments.items;
  for (int64_t example = 0; example < run->size; ++example)
    for (int64_t moment = 0; moment < wanted->lengths[example]; ++moment, ++feature) {
      void *to = element(values, example * row + moment * wanted->stride);
      if (!feature->dtype && wanted->fallback)
        dp_tensor_copy_elements(wanted->dtype, to, wanted->fallback->data, wanted->stride);
      else if (feature->count > 0)
        DP_RETURN_IF_ERROR(dp_feature_copy(feature, to));
    }
  return outputs[1] >= 0 ? output_lengths(run, wanted, outputs[1] + index) : NULL;
}

/* Row splits: running sums from 0 on, in the output's dtype. */
static dp_status *output_splits(const sequence_run *run, int32_t output, int64_t count,
                                int64_t (*at)(const wanted_sequence *, int64_t),
                                const wanted_sequence *wanted) {
  dp_shape shape = dp_shape_vector(count + 1);
  dp_tensor *splits;
  int64_t sum = 0;
  DP_RETURN_IF_ERROR(dp_op_allocate(run->context, output, &shape, &splits));
  for (int64_t i = 0; i <= count; ++i) {
    if (splits->dtype == DP_INT64)
      ((int64_t *)splits->data)[i] = sum;
    else
      ((int32_t *)splits->data)[i] = (int32_t)sum;
    sum += i < count ? at(wanted, i) : 0;
  }
  return NULL;
}

static int64_t length_at(const wanted_sequence *wanted, int64_t example) {
  return wanted->lengths[example];
}

static int64_t values_at(const wanted_sequence *wanted, int64_t moment) {
  return wanted->moments.items[moment].count;
}

/* A single example has no splits; as in TensorFlow, the output is a scalar. */
static dp_status *output_no_splits(const sequence_run *run, int32_t output) {
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *splits;
  DP_RETURN_IF_ERROR(dp_op_allocate(run->context, output, &scalar, &splits));
  memset(splits->data, 0, dp_tensor_bytes(splits));
  return NULL;
}

static dp_status *output_ragged(const sequence_run *run, const wanted_sequence *wanted,
                                const int32_t *outputs, int32_t index) {
  int64_t moments = (int64_t)wanted->moments.count;
  DP_RETURN_IF_ERROR(write_values(run, wanted, outputs[0] + index));
  if (run->is_single)
    DP_RETURN_IF_ERROR(output_no_splits(run, outputs[1] + index));
  else
    DP_RETURN_IF_ERROR(output_splits(run, outputs[1] + index, wanted->is_list ? run->size : moments,
                                     wanted->is_list ? length_at : values_at, wanted));
  return wanted->is_list ? output_splits(run, outputs[2] + index, moments, values_at, wanted)
                         : NULL;
}

static dp_status *output_all(const sequence_run *run) {
  static dp_status *(*const writers[FORMS])(const sequence_run *, const wanted_sequence *,
                                            const int32_t *,
                                            int32_t) = {output_sparse, output_dense, output_ragged};
  const wanted_sequence *wanted = run->wanted;
  for (int which = 0; which < 2; ++which)
    for (int form = 0; form < FORMS; ++form) {
      const sequence_group *group = &run->state->groups[which][form];
      for (int32_t i = 0; i < group->count; ++i, ++wanted)
        DP_RETURN_IF_ERROR(writers[form](run, wanted, group->outputs, i));
    }
  return NULL;
}

/* ---- The kernel ---- */
static dp_status *run_all(sequence_run *run) {
  DP_RETURN_IF_ERROR(read_wanted(run));
  dp_view *values = DP_NEW_ARRAY(dp_view, (size_t)run->count + 1);
  dp_status *status = NULL;
  for (int64_t example = 0; example < run->size && !status; ++example)
    for (int which = 0; which < 2 && !status; ++which)
      status = find_features(run, example, which, values);
  dp_free(values);
  return status ? status : output_all(run);
}

static dp_status *sequence_compute(dp_op_context *context, void *memory) {
  sequence_run run = {.context = context, .state = memory, .serialized = dp_op_input(context, 0)};
  const dp_shape *shape = &run.serialized->shape;
  bool is_single_op = strcmp(context->node->op->name, "ParseSingleSequenceExample") == 0;
  if (shape->rank > !is_single_op)
    return DP_INVALID("Expected serialized to be a %s, got shape: %s",
                      is_single_op ? "scalar" : "scalar or vector", dp_shape_text(shape));
  run.size = shape->elements;
  run.is_single = shape->rank == 0;
  for (int i = 0; i < 2 * FORMS; ++i)
    run.count += run.state->groups[i / FORMS][i % FORMS].count;
  run.wanted = DP_NEW_ARRAY(wanted_sequence, (size_t)run.count + 1);
  run.by_key[0] = dp_map_create();
  run.by_key[1] = dp_map_create();
  dp_status *status = run_all(&run);
  for (int32_t k = 0; k < run.count; ++k) {
    DP_ARRAY_FREE(&run.wanted[k].moments);
    dp_free(run.wanted[k].lengths);
  }
  dp_free(run.wanted);
  dp_map_destroy(run.by_key[0]);
  dp_map_destroy(run.by_key[1]);
  return status;
}

/* clang-format off */
#define ROW(name)                                                                                  \
  {.op = name, .state_size = sizeof(sequence_state), .create = sequence_create,                    \
   .compute = sequence_compute}

static const dp_kernel rows[] = {
    ROW("ParseSequenceExample"), ROW("ParseSequenceExampleV2"), ROW("ParseSingleSequenceExample"),
};
/* clang-format on */
DP_KERNEL_FAMILY(example_sequence, rows);
