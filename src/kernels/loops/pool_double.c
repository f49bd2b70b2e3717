/* Poolings of doubles, a row at a time; compiled once for each instruction set. */
#define T double
#define M double
#define IS_DOUBLE
#define TABLE dp_pooling_rows_double
#include "kernels/loops/pool_rows.tmpl.h"
