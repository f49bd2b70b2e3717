/* Poolings of doubles, a row at a time: the table that loops/pool.h declares. The bodies are in
 * pool_rows.tmpl.h, with T the type of the arithmetic and M that of the memory. One file per type,
 * so that they compile side by side; each is compiled once for each instruction set. */
#define T double
#define M double
#define IS_DOUBLE
#define TABLE dp_pooling_rows_double
#include "kernels/loops/pool_rows.tmpl.h"
