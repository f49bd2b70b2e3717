/* Poolings of bfloat16, a row at a time, computed in float; compiled once for each instruction
 * set. */
#define T float
#define M uint16_t
#define READ read_bfloat16
#define WRITE write_bfloat16
#define TABLE dp_pooling_rows_bfloat16
#include "kernels/loops/pool_rows.tmpl.h"
