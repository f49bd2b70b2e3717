/* Strings as TensorFlow's C API exposes them (TF_TString): 24 bytes, small ones inside.
 *
 * The layout and the meaning of the two low bits are fixed by that interface, and so is that large
 * strings come from malloc and go to free: a client of the C API may assign or end a string that we
 * made. A NUL stands behind the bytes of small and large strings. A string has one writer. */
#include "tensor/tensor.h"

#include <stdlib.h>
#include "base/memory.h"

#define SMALL_CAPACITY 22
/* Sizes are shifted by two bits; this leaves room for rounding too. */
#define SIZE_LIMIT ((size_t)1 << 60)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the type is in the first byte");
_Static_assert(sizeof(dp_tstring) == 24 && sizeof(size_t) == 8, "TF_TString has 24 bytes");
_Static_assert(sizeof(((dp_tstring *)0)->small) == 24, "22 bytes and a NUL behind the size");
_Static_assert(offsetof(dp_tstring, small.data) == 1, "TF_TString_Small.str");
_Static_assert(offsetof(dp_tstring, large.capacity) == 8, "TF_TString_Large.cap");
_Static_assert(offsetof(dp_tstring, large.data) == 16, "TF_TString_Large.ptr");
_Static_assert(offsetof(dp_tstring, view.data) == 8, "TF_TString_View.ptr");
_Static_assert(offsetof(dp_tstring, offset.offset) == 4, "TF_TString_Offset.offset");
_Static_assert(offsetof(dp_tstring, offset.count) == 8, "TF_TString_Offset.count");

void dp_tstring_deinit(dp_tstring *string) {
  if (dp_tstring_type_of(string) == DP_TSTRING_LARGE)
    free(string->large.data);
  memset(string, 0, sizeof *string);
}

/* Takes memory for a large string; room for the NUL is added and all rounded up to 16. */
static dp_status *make_large(size_t length, dp_tstring *string_out) {
  char *data = NULL;
  size_t capacity = 0;
  if (length < SIZE_LIMIT) {
    capacity = ((length + 1 + 15) & ~(size_t)15) - 1;
    data = malloc(capacity + 1);
  }
  if (!data)
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "No memory for a string of %zu bytes", length);
  data[length] = '\0';
  string_out->large.size_and_type = (uint64_t)length << 2 | DP_TSTRING_LARGE;
  string_out->large.capacity = capacity;
  string_out->large.data = data;
  return NULL;
}

static void make_small(size_t length, dp_tstring *string_out) {
  string_out->small.size_and_type = (uint8_t)(length << 2 | DP_TSTRING_SMALL);
  string_out->small.data[length] = '\0';
}

static bool fits_in_place(const dp_tstring *string, size_t length) {
  return dp_tstring_type_of(string) == DP_TSTRING_LARGE && length > SMALL_CAPACITY &&
         length <= string->large.capacity && length >= string->large.capacity / 2;
}

/* A fresh string first, then the old one goes: `data` may point into it. */
dp_status *dp_tstring_assign(dp_tstring *string, const void *data, size_t length) {
  dp_tstring fresh = {.raw = {0}};
  if (length <= SMALL_CAPACITY) {
    make_small(length, &fresh);
    if (length)
      memcpy(fresh.small.data, data, length);
  } else if (fits_in_place(string, length)) {
    memmove(string->large.data, data, length);
    string->large.data[length] = '\0';
    string->large.size_and_type = (uint64_t)length << 2 | DP_TSTRING_LARGE;
    return NULL;
  } else {
    DP_RETURN_IF_ERROR(make_large(length, &fresh));
    memcpy(fresh.large.data, data, length);
  }
  dp_tstring_deinit(string);
  *string = fresh;
  return NULL;
}

dp_status *dp_tstring_resize(dp_tstring *string, size_t length, char **data_out) {
  dp_view old = dp_tstring_view(string);
  size_t kept = old.length < length ? old.length : length;
  dp_tstring fresh = {.raw = {0}};
  if (length <= SMALL_CAPACITY) {
    make_small(length, &fresh);
    if (kept)
      memcpy(fresh.small.data, old.data, kept);
  } else if (fits_in_place(string, length)) {
    string->large.data[length] = '\0';
    string->large.size_and_type = (uint64_t)length << 2 | DP_TSTRING_LARGE;
    *data_out = string->large.data;
    return NULL;
  } else {
    DP_RETURN_IF_ERROR(make_large(length, &fresh));
    if (kept)
      memcpy(fresh.large.data, old.data, kept);
  }
  dp_tstring_deinit(string);
  *string = fresh;
  *data_out = length <= SMALL_CAPACITY ? string->small.data : string->large.data;
  return NULL;
}

void dp_tstring_assign_view(dp_tstring *string, const void *data, size_t length) {
  dp_tstring_deinit(string);
  string->view.size_and_type = (uint64_t)length << 2 | DP_TSTRING_VIEW;
  string->view.data = data;
}
