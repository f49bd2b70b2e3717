/* Lets SymbolicGradient differentiate functions whose library names no gradient. */
#ifndef DP_CLIENT_DIFFERENTIATE_H
#define DP_CLIENT_DIFFERENTIATE_H

/* At start-up. */
void dp_differentiate_register(void);

#endif
