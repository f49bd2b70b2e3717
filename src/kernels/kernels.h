/* What other rooms of src/ see of the kernels: registration and shutdown. The kernels themselves
 * are found through the runtime's registry. Programs call dp_kernels_register before they compile
 * the first graph; further calls do nothing. Any thread may call it. */
#ifndef DP_KERNELS_KERNELS_H
#define DP_KERNELS_KERNELS_H

/* Registers the rows of every family (families.h) with the runtime. */
void dp_kernels_register(void);
/* Waits until threads that kernels started themselves are done: iterators of datasets, which may
 * still call functions. Call it when no step runs and all resources are dropped, before the pools
 * of the devices are destroyed. */
void dp_kernels_settle(void);

#endif
