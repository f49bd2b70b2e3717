/* The kernels room: bodies of ops, one file (or a few) a family. Programs call dp_kernels_register
 * once before they compile the first graph; further calls do nothing. Any thread may call it. */
#ifndef DP_KERNELS_KERNELS_H
#define DP_KERNELS_KERNELS_H

/* Registers the rows of every family (families_internal.h) with the runtime. */
void dp_kernels_register(void);
/* Waits for what kernels end in the background, on threads of their own: walks through datasets,
 * which may still call functions. To be called when no step runs and all resources are dropped,
 * before the pools of the devices go. */
void dp_kernels_settle(void);

#endif
