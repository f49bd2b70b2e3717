/* Fills the table of select.h. Elements are moved as plain bits, so all dtypes of one size share a
 * loop; the template is included once per size. Compiled once for each instruction set. */
#include "kernels/loops/select.h"

#include <string.h>
#include "kernels/loops/types.h"

typedef struct sixteen_bytes {
  uint64_t words[2];
} sixteen_bytes;

#define T uint8_t
#define SUFFIX 1
#include "kernels/loops/select.tmpl.h"
#define T uint16_t
#define SUFFIX 2
#include "kernels/loops/select.tmpl.h"
#define T uint32_t
#define SUFFIX 4
#include "kernels/loops/select.tmpl.h"
#define T uint64_t
#define SUFFIX 8
#include "kernels/loops/select.tmpl.h"
#define T sixteen_bytes
#define SUFFIX 16
#include "kernels/loops/select.tmpl.h"

const dp_select_loops DP_ISA_SYMBOL(dp_select_table) = {
    .by_size = {[1] = select_1, [2] = select_2, [4] = select_4, [8] = select_8, [16] = select_16},
};
