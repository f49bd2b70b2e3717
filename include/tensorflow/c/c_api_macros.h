/* What every header of the C API needs. TF_CAPI_EXPORT marks the functions that the library
 * exports; all others are hidden. With TF_CAPI_WEAK they are weak, so that a program can be linked
 * without the library. */
#ifndef TENSORFLOW_C_C_API_MACROS_H_
#define TENSORFLOW_C_C_API_MACROS_H_

#ifdef TF_CAPI_WEAK
#define TF_CAPI_EXPORT __attribute__((visibility("default"), weak))
#else
#define TF_CAPI_EXPORT __attribute__((visibility("default")))
#endif

#ifndef TF_Bool
#define TF_Bool unsigned char
#endif

#endif
