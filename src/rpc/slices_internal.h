/* Turns ropes into gRPC's byte buffers and back. Large pieces are not copied: gRPC's slice refers
 * to the rope's memory, and the rope's piece to gRPC's slice, each until its last user lets go.
 * Small pieces are copied, which is cheaper than a reference. No state; any thread. */
#ifndef DP_RPC_SLICES_INTERNAL_H
#define DP_RPC_SLICES_INTERNAL_H

#include <grpc/byte_buffer.h>
#include "base/status.h"
#include "tensor/rope.h"

/* gRPC's length field has 32 bits. */
#define DP_RPC_MAX_BYTES ((size_t)UINT32_MAX)

/* From here on the work on a body is worth a thread of its own; see rpc/network.h. */
#define DP_RPC_LARGE_BYTES ((size_t)256 << 10)

/* Empties `rope` in any case. Its pieces stay alive until gRPC has sent them.
 * RESOURCE_EXHAUSTED when it is longer than a message can be. */
DP_MUST_USE dp_status *dp_rpc_pack(dp_rope *rope, grpc_byte_buffer **body_out);
/* Appends the bytes of `body` and destroys it. The slices live as long as the pieces over them. */
DP_MUST_USE dp_status *dp_rpc_unpack(grpc_byte_buffer *body, dp_rope *rope);

#endif
