/* Gradients for SymbolicGradient of functions whose library names no gradient function. The graph
 * room asks for them through a hook, because it cannot call up into the client. */
#ifndef DP_CLIENT_DIFFERENTIATE_H
#define DP_CLIENT_DIFFERENTIATE_H

/* Sets the hook (dp_library_set_differentiator). Called at start-up; a second call does no harm. */
void dp_differentiate_register(void);

#endif
