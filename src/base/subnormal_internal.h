/* The float mode of the calling thread: a control register of the CPU, whose DP_FLUSH_BITS make it
 * treat subnormal operands and results as zeros. Arithmetic on subnormal numbers would be about a
 * hundred times slower. On a CPU whose register is not known here the functions do nothing. */
#ifndef DP_BASE_SUBNORMAL_INTERNAL_H
#define DP_BASE_SUBNORMAL_INTERNAL_H

#if defined(__SSE2__)
enum { DP_FLUSH_BITS = 0x8040 };
static inline unsigned long dp_float_mode(void) {
  return __builtin_ia32_stmxcsr();
}
static inline void dp_set_float_mode(unsigned long mode) {
  __builtin_ia32_ldmxcsr((unsigned)mode);
}
#elif defined(__aarch64__)
enum { DP_FLUSH_BITS = 1 << 24 };
static inline unsigned long dp_float_mode(void) {
  return __builtin_aarch64_get_fpcr();
}
static inline void dp_set_float_mode(unsigned long mode) {
  __builtin_aarch64_set_fpcr((unsigned)mode);
}
#else
enum { DP_FLUSH_BITS = 0 };
static inline unsigned long dp_float_mode(void) {
  return 0;
}
static inline void dp_set_float_mode(unsigned long mode) {
  (void)mode;
}
#endif

#endif
