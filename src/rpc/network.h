/* What handlers and `done` functions should know about the threads they run on.
 *
 * A network thread waits for events and runs the functions that belong to them. Only as many wait
 * as there are network threads by option; one more stands by. Each thread that waits costs a
 * wake-up an event (a third of a small call's price), so usually there is one, and while it runs a
 * function nobody looks at the network. */
#ifndef DP_RPC_NETWORK_H
#define DP_RPC_NETWORK_H

/* Before work of more than some 50 microseconds on a network thread: another thread takes over the
 * network, and this one is free until the function returns. No effect on other threads. Bodies over
 * 256 KiB do this by themselves. */
void dp_rpc_yield(void);

#endif
