/* Strings as TensorFlow's C API exposes them (TF_TString): 24 bytes, with small strings inside.
 *
 * The C API fixes the layout and the meaning of the two low bits. It also fixes that large strings
 * come from malloc and go to free: a client may assign or end a string that we made. The bytes of
 * small and large strings are followed by a NUL. A string has one writer. */
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

/* Allocates a large string: `length` bytes and the NUL, rounded up to a multiple of 16. */
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

/* Copies at most SMALL_CAPACITY bytes. All bytes are read before the first is written, so `to` and
 * `from` may overlap. Two loads and two stores do it; a loop, or a copy through a temporary string,
 * would load bytes that it has just stored and wait for them. */
static inline void copy_small(char *to, const char *from, size_t length) {
  if (length >= 16) {
    uint64_t first[2], last[2];
    memcpy(first, from, 16);
    memcpy(last, from + length - 16, 16);
    memcpy(to, first, 16);
    memcpy(to + length - 16, last, 16);
  } else if (length >= 8) {
    uint64_t first, last;
    memcpy(&first, from, 8);
    memcpy(&last, from + length - 8, 8);
    memcpy(to, &first, 8);
    memcpy(to + length - 8, &last, 8);
  } else if (length >= 4) {
    uint32_t first, last;
    memcpy(&first, from, 4);
    memcpy(&last, from + length - 4, 4);
    memcpy(to, &first, 4);
    memcpy(to + length - 4, &last, 4);
  } else if (length > 0) {
    char first = from[0], middle = from[length / 2], last = from[length - 1];
    to[0] = first;
    to[length / 2] = middle;
    to[length - 1] = last;
  }
}

/* Not inlined, so that the path of small strings needs no stack frame. */
static __attribute__((noinline)) dp_status *assign_large(dp_tstring *string, const void *data,
                                                         size_t length) {
  if (fits_in_place(string, length)) {
    memmove(string->large.data, data, length);
    string->large.data[length] = '\0';
    string->large.size_and_type = (uint64_t)length << 2 | DP_TSTRING_LARGE;
    return NULL;
  }
  dp_tstring fresh;
  DP_RETURN_IF_ERROR(make_large(length, &fresh));
  memcpy(fresh.large.data, data, length);
  dp_tstring_deinit(string); /* only now: `data` may point into it */
  *string = fresh;
  return NULL;
}

static __attribute__((noinline)) void shrink_to_small(dp_tstring *string, const void *data,
                                                      size_t length) {
  char *old = string->large.data;
  copy_small(string->small.data, data, length);
  make_small(length, string);
  free(old);
}

dp_status *dp_tstring_assign(dp_tstring *string, const void *data, size_t length) {
  if (length > SMALL_CAPACITY)
    return assign_large(string, data, length);
  if (dp_tstring_type_of(string) == DP_TSTRING_LARGE) {
    shrink_to_small(string, data, length);
    return NULL;
  }
  copy_small(string->small.data, data, length);
  make_small(length, string);
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
