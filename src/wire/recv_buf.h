/* RecvBufResponse: the answer to a member of a collective that asked for the bytes of a tensor. The
 * bytes travel as a RecvBufRespExtra inside an Any. We send one content field; TensorFlow may send
 * several, which are joined. No state, any thread. */
#ifndef DP_WIRE_RECV_BUF_H
#define DP_WIRE_RECV_BUF_H

#include "base/status.h"
#include "tensor/rope.h"
#include "tensor/tensor.h"

/* Appends the response for the bytes of a plain tensor; the rope retains a large one's buffer. */
DP_MUST_USE dp_status *dp_recv_buf_response_encode(const dp_tensor *tensor, dp_rope *rope);
/* Copies exactly `bytes` bytes to `to`. INTERNAL, with TensorFlow's message, when the response has
 * more or fewer bytes. */
DP_MUST_USE dp_status *dp_recv_buf_response_decode(const dp_rope *rope, void *to, size_t bytes);

#endif
