/* Poolings of 16-bit floats, computed in float, a row at a time: the table that loops/pool.h
 * declares. The bodies are in pool_rows.tmpl.h, with T the type of the arithmetic and M that of the
 * memory. One file per type, so that they compile side by side; each is compiled once for each
 * instruction set. */
#define T float
#define M uint16_t
#define READ read_half
#define WRITE write_half
#define TABLE dp_pooling_rows_half
#include "kernels/loops/pool_rows.tmpl.h"
