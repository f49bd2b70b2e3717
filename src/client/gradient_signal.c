/* Gradients of Fourier transforms. The gradient of a transform is the inverse transform times the
 * number of elements, and the other way round. Transforms of real signals (RFFT) leave out the half
 * of the spectrum that follows from symmetry. */
#include "client/gradient_internal.h"

/* The last `rank` dimensions of `value`. */
static TF_Output sizes(dp_scope *s, TF_Output value, int rank) {
  return dp_strided_slice(s, shape_of(s, value), dp_const_vector(s, DP_INTS(-rank)),
                          dp_const_vector(s, DP_INTS(0)), dp_const_vector(s, DP_INTS(1)),
                          .end_mask = 1);
}

/* The product of `sizes`, as a number of `type`. */
static TF_Output elements(dp_scope *s, TF_Output sizes, TF_DataType type) {
  return dp_cast(s, dp_prod(s, sizes, integer(s, 0)), type);
}

static TF_Output transformed(dp_scope *s, TF_Output value, int rank) {
  return rank == 1 ? dp_fft(s, value) : rank == 2 ? dp_fft2d(s, value) : dp_fft3d(s, value);
}

static TF_Output back(dp_scope *s, TF_Output value, int rank) {
  return rank == 1 ? dp_ifft(s, value) : rank == 2 ? dp_ifft2d(s, value) : dp_ifft3d(s, value);
}

static void forward(gradient_call *g, int rank) {
  dp_scope *s = g->scope;
  TF_Output dy = above(g, 0), count = elements(s, sizes(s, dy, rank), type_of(dy));
  GIVE(g, 0, dp_mul(s, back(s, dy, rank), count));
}

static void inverse(gradient_call *g, int rank) {
  dp_scope *s = g->scope;
  TF_Output dy = above(g, 0), count = elements(s, sizes(s, dy, rank), type_of(dy));
  GIVE(g, 0, dp_div(s, transformed(s, dy, rank), count));
}

/* The last element of a vector, as a vector. */
static TF_Output last(dp_scope *s, TF_Output vector) {
  return dp_strided_slice(s, vector, dp_const_vector(s, DP_INTS(-1)),
                          dp_const_vector(s, DP_INTS(0)), dp_const_vector(s, DP_INTS(1)),
                          .end_mask = 1);
}

/* The half that RFFT leaves out gets no gradient: zeros are put in its place. */
static void real_forward(gradient_call *g, int rank) {
  dp_scope *s = g->scope;
  TF_Output dy = above(g, 0), length = input(g, 1), zero = integer(s, 0);
  TF_Output missing = dp_sub(s, last(s, length), last(s, shape_of(s, dy)));
  TF_Output room = dp_concat_v2(s, DP_OUTPUTS(dp_const_vector(s, DP_INTS(0)), missing), zero);
  TF_Output others = dp_fill(
      s, dp_pack(s, DP_OUTPUTS(dp_sub(s, dp_rank(s, dy), integer(s, 1)), integer(s, 2))), zero);
  TF_Output paddings = dp_concat_v2(s, DP_OUTPUTS(others, dp_expand_dims(s, room, zero)), zero);
  TF_Output whole = back(s, dp_pad(s, dy, paddings), rank);
  TF_Output real = dp_real(s, whole, .tout = type_of(input(g, 0)));
  GIVE(g, 0, dp_mul(s, real, elements(s, length, type_of(input(g, 0)))));
}

/* How often each kept element occurs in the whole spectrum: 1, 2, 2, ... If the length is even
 * there is a middle element, which occurs once. */
static TF_Output counts(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output kept = last(s, shape_of(s, input(g, 0))), length = last(s, input(g, 1));
  TF_Output one = dp_const_vector(s, DP_INTS(1)), two = dp_const_vector(s, DP_INTS(2));
  TF_Output is_odd = dp_floor_mod(s, length, two), zero = integer(s, 0);
  TF_Output inner = dp_add(s, dp_sub(s, kept, two), is_odd);
  return dp_concat_v2(s,
                      DP_OUTPUTS(one, dp_fill(s, inner, integer(s, 2)),
                                 dp_fill(s, dp_sub(s, one, is_odd), integer(s, 1))),
                      zero);
}

static void real_inverse(gradient_call *g, int rank) {
  dp_scope *s = g->scope;
  TF_Output dy = above(g, 0), length = input(g, 1);
  TF_DataType type = type_of(input(g, 0));
  TF_Output all = rank == 1 ? dp_rfft(s, dy, length, .tcomplex = type)
                            : dp_rfft2d(s, dy, length, .tcomplex = type);
  TF_Output share = dp_div(s, dp_cast(s, counts(g), type), elements(s, length, type));
  GIVE(g, 0, dp_mul(s, all, share));
}

#define RANKS(name)                                                                                \
  static void name##_1(gradient_call *g) {                                                         \
    name(g, 1);                                                                                    \
  }                                                                                                \
  static void name##_2(gradient_call *g) {                                                         \
    name(g, 2);                                                                                    \
  }
RANKS(forward)
RANKS(inverse)
RANKS(real_forward)
RANKS(real_inverse)

static void forward_3(gradient_call *g) {
  forward(g, 3);
}

static void inverse_3(gradient_call *g) {
  inverse(g, 3);
}

const gradient_row dp_gradient_signal[] = {
    {"FFT", forward_1},
    {"FFT2D", forward_2},
    {"FFT3D", forward_3},
    {"IFFT", inverse_1},
    {"IFFT2D", inverse_2},
    {"IFFT3D", inverse_3},
    {"IRFFT", real_inverse_1},
    {"IRFFT2D", real_inverse_2},
    {"RFFT", real_forward_1},
    {"RFFT2D", real_forward_2},
    {NULL, NULL},
};
