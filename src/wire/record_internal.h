/* Records: C structs that a table of fields describes, so that one reader and one writer serve all
 * messages that carry tensors (wire/run_messages.h). A table is constant and sorted by field
 * number. No state, any thread. */
#ifndef DP_WIRE_RECORD_INTERNAL_H
#define DP_WIRE_RECORD_INTERNAL_H

#include <protobuf-c/protobuf-c.h>
#include "base/arena.h"
#include "base/status.h"
#include "tensor/rope.h"

/* The type of the struct's member at `offset`. The length of a list is a size_t at `count_offset`.
 */
typedef enum dp_record_kind {
  DP_RECORD_STRING,   /* const char *; a NUL inside is an error */
  DP_RECORD_TEXT,     /* const char * for people to read; a NUL inside becomes a "?" */
  DP_RECORD_STRINGS,  /* const char ** */
  DP_RECORD_BOOL,     /* bool */
  DP_RECORD_INT32,    /* int32_t */
  DP_RECORD_INT64,    /* int64_t */
  DP_RECORD_MESSAGE,  /* generated type *, NULL when absent */
  DP_RECORD_MESSAGES, /* generated type ** */
  DP_RECORD_TENSOR,   /* dp_tensor */
  DP_RECORD_TENSORS,  /* dp_tensor * */
  DP_RECORD_NAMED,    /* dp_named_tensor * */
} dp_record_kind;

typedef struct dp_record_field {
  uint32_t number;
  dp_record_kind kind;
  size_t offset;
  size_t count_offset;
  const ProtobufCMessageDescriptor *descriptor;
  const char *name;
} dp_record_field;

typedef struct dp_record_type {
  const char *name; /* "RunStepRequest" */
  size_t size;      /* of the struct */
  const dp_record_field *fields;
  size_t field_count;
} dp_record_type;

/* Fills *record_out, which is left untouched on failure. */
DP_MUST_USE dp_status *dp_record_decode(const dp_record_type *type, const dp_rope *rope,
                                        dp_arena *arena, void *record_out);
/* Fields with their default value are left out, as protobuf does. */
DP_MUST_USE dp_status *dp_record_encode(const dp_record_type *type, const void *record,
                                        dp_rope *rope);
/* Releases the tensors and zeroes the struct. */
void dp_record_deinit(const dp_record_type *type, void *record);

#endif
