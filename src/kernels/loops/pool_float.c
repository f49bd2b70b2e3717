/* Poolings of floats, a row at a time; compiled once for each instruction set. */
#define T float
#define M float
#define TABLE dp_pooling_rows_float
#include "kernels/loops/pool_rows.tmpl.h"
