/* How loops are compiled that do so little with what they read that they wait for memory. Vectors
 * of 32 bytes, four of them a turn, keep more of it on the way than the widest do, and are no
 * slower while all is in the cache. DP_STREAM stands before such a function, DP_STREAM_LOOP
 * (instead of DP_INDEPENDENT) before its loop. */
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
