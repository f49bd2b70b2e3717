/* Poolings of 16-bit floats, a row at a time, computed in float; compiled once for each instruction
 * set. */
#define T float
#define M uint16_t
#define READ read_half
#define WRITE write_half
#define TABLE dp_pooling_rows_half
#include "kernels/loops/pool_rows.tmpl.h"
