/* For loops that compute so little that they wait for memory. DP_STREAM stands before such a
 * function, DP_STREAM_LOOP (instead of DP_INDEPENDENT) before its loop. With gcc they ask for
 * vectors of 32 bytes, unrolled four times: that keeps more memory requests in flight than the
 * widest vectors do, and is no slower when all data are in the cache. */
#ifndef DP_KERNELS_LOOPS_STREAM_INTERNAL_H
#define DP_KERNELS_LOOPS_STREAM_INTERNAL_H

#include "kernels/isa/isa.h"

#if defined(__AVX512F__) && !defined(__clang__)
#define DP_STREAM __attribute__((target("prefer-vector-width=256")))
#else
#define DP_STREAM
#endif

#if defined(__clang__)
#define DP_STREAM_LOOP DP_INDEPENDENT
#else
#define DP_STREAM_LOOP _Pragma("GCC ivdep") _Pragma("GCC unroll 4")
#endif

#endif
