/* Banded systems for one type. The includer defines ELEMENT (the type), REAL (the type of its
 * magnitude), MAGNITUDE(x), CONJUGATE(x), REAL_PART(x), EPSILON and SMALLEST (limits of REAL),
 * NO_SOLUTION (the value that stands for it) and NAMED(x) (the name of function x for this type).
 * Rows of right-hand sides have k elements. */

/* Rows: to = a - factor * b. */
static void NAMED(combine)(const ELEMENT *a, const ELEMENT *b, ELEMENT factor, int64_t k,
                           ELEMENT *to) {
  for (int64_t c = 0; c < k; ++c)
    to[c] = a[c] - factor * b[c];
}

static void NAMED(multiply)(ELEMENT *row, ELEMENT factor, int64_t k) {
  for (int64_t c = 0; c < k; ++c)
    row[c] *= factor;
}

static void NAMED(divide)(ELEMENT *row, ELEMENT by, int64_t k) {
  for (int64_t c = 0; c < k; ++c)
    row[c] /= by;
}

/* ---- Tridiagonal, without exchange of rows ---- */
/* False when a pivot is zero. */
static bool NAMED(solve_straight)(const ELEMENT *diagonals, const ELEMENT *right, int64_t n,
                                  int64_t k, ELEMENT *u, ELEMENT *x) {
  const ELEMENT *upper = diagonals, *main = diagonals + n, *lower = diagonals + 2 * n;
  for (int64_t i = 0; i < n; ++i) {
    ELEMENT pivot = i == 0 ? main[0] : main[i] - lower[i] * u[i - 1];
    if (pivot == 0)
      return false;
    u[i] = upper[i] / pivot;
    if (i == 0)
      memcpy(x, right, (size_t)k * sizeof *x);
    else
      NAMED(combine)(right + i * k, x + (i - 1) * k, lower[i], k, x + i * k);
    NAMED(divide)(x + i * k, pivot, k);
  }
  for (int64_t i = n - 2; i >= 0; --i)
    NAMED(combine)(x + i * k, x + (i + 1) * k, u[i], k, x + i * k);
  return true;
}

/* ---- With exchange ---- */
/* A row of the upper triangle has at most three elements: u[3 i .. 3 i + 2]. Rows i and i + 1 are
 * eliminated, keeping or exchanging them; x holds the right-hand sides so far. */
static void NAMED(eliminate)(const ELEMENT *diagonals, const ELEMENT *right, int64_t n, int64_t k,
                             int64_t i, bool exchanges, ELEMENT *u, ELEMENT *x) {
  const ELEMENT *upper = diagonals, *main = diagonals + n, *lower = diagonals + 2 * n;
  ELEMENT *row = u + 3 * i, *next = row + 3, *x_row = x + i * k, *x_next = x_row + k;
  ELEMENT beyond = i + 2 < n ? upper[i + 1] : 0;
  const ELEMENT *given = right + (i + 1) * k;
  if (!exchanges) {
    ELEMENT factor = lower[i + 1] / row[0];
    next[0] = main[i + 1] - factor * row[1];
    next[1] = beyond;
    row[2] = 0;
    NAMED(combine)(given, x_row, factor, k, x_next);
    return;
  }
  ELEMENT factor = row[0] / lower[i + 1];
  next[0] = row[1] - factor * main[i + 1];
  next[1] = -factor * beyond;
  row[0] = lower[i + 1];
  row[1] = main[i + 1];
  row[2] = beyond;
  NAMED(combine)(x_row, given, factor, k, x_next);
  memcpy(x_row, given, (size_t)k * sizeof *x);
}

/* Back substitution of row i: subtracts the multiples of the two rows after it. */
static void NAMED(substitute)(const ELEMENT *u, int64_t n, int64_t k, int64_t i, ELEMENT *x) {
  if (i + 1 < n)
    NAMED(combine)(x + i * k, x + (i + 1) * k, u[3 * i + 1], k, x + i * k);
  if (i + 2 < n)
    NAMED(combine)(x + i * k, x + (i + 2) * k, u[3 * i + 2], k, x + i * k);
}

static void NAMED(start)(const ELEMENT *diagonals, const ELEMENT *right, int64_t n, int64_t k,
                         ELEMENT *u, ELEMENT *x) {
  memset(u, 0, (size_t)(3 * n) * sizeof *u);
  u[0] = diagonals[n];
  u[1] = n > 1 ? diagonals[0] : 0;
  memcpy(x, right, (size_t)k * sizeof *x);
}

static bool NAMED(solve_pivoted)(const ELEMENT *diagonals, const ELEMENT *right, int64_t n,
                                 int64_t k, ELEMENT *u, ELEMENT *x) {
  const ELEMENT *lower = diagonals + 2 * n;
  NAMED(start)(diagonals, right, n, k, u, x);
  for (int64_t i = 0; i + 1 < n; ++i) {
    bool exchanges = !(MAGNITUDE(u[3 * i]) >= MAGNITUDE(lower[i + 1]));
    if (!exchanges && u[3 * i] == 0)
      return false;
    NAMED(eliminate)(diagonals, right, n, k, i, exchanges, u, x);
  }
  if (u[3 * (n - 1)] == 0)
    return false;
  for (int64_t i = n - 1; i >= 0; --i) {
    NAMED(substitute)(u, n, k, i, x);
    NAMED(divide)(x + i * k, u[3 * i], k);
  }
  return true;
}

/* ---- With exchange, and small pivots moved away from zero ---- */
/* So that neither 1 / pivot nor an element of the row divided by it is infinite. */
static ELEMENT NAMED(move_pivot)(ELEMENT pivot, REAL step, ELEMENT *row, int64_t k) {
  REAL size = MAGNITUDE(pivot), largest = 0;
  const REAL safe = SMALLEST, huge = 1 / safe;
  if (size >= 1)
    return pivot;
  for (int64_t c = 0; c < k; ++c)
    largest = MAGNITUDE(row[c]) > largest ? MAGNITUDE(row[c]) : largest;
  step = step > safe ? step : safe;
  step = signbit(REAL_PART(pivot)) ? -step : step;
  while (size < 1) {
    bool is_tiny = size < safe;
    bool moves = is_tiny ? size == 0 || largest * safe > size : largest > size * huge;
    if (is_tiny && !moves) {
      NAMED(multiply)(row, huge, k);
      return pivot * huge;
    }
    if (!moves)
      return pivot;
    pivot += step;
    step *= 2;
    size = MAGNITUDE(pivot);
  }
  return pivot;
}

/* Whether rows i and i + 1 are exchanged: compares |pivot| / (sum of the magnitudes of the row). */
static bool NAMED(exchanges_scaled)(const ELEMENT *diagonals, int64_t n, int64_t i,
                                    const ELEMENT *u, REAL *scale) {
  const ELEMENT *upper = diagonals, *main = diagonals + n, *lower = diagonals + 2 * n;
  REAL next =
      MAGNITUDE(lower[i + 1]) + MAGNITUDE(main[i + 1]) + (i + 2 < n ? MAGNITUDE(upper[i + 1]) : 0);
  REAL here = u[3 * i] == 0 ? 0 : MAGNITUDE(u[3 * i]) / *scale;
  if (lower[i + 1] != 0 && MAGNITUDE(lower[i + 1]) / next > here)
    return true;
  *scale = next;
  return false;
}

static bool NAMED(solve_perturbed)(const ELEMENT *diagonals, const ELEMENT *right, int64_t n,
                                   int64_t k, ELEMENT *u, ELEMENT *x) {
  const ELEMENT *lower = diagonals + 2 * n;
  NAMED(start)(diagonals, right, n, k, u, x);
  REAL scale = MAGNITUDE(u[0]) + MAGNITUDE(u[1]), largest = 0;
  for (int64_t i = 0; i + 1 < n; ++i) {
    if (lower[i + 1] == 0) { /* nothing to eliminate, whatever the pivot is */
      NAMED(exchanges_scaled)(diagonals, n, i, u, &scale);
      u[3 * i + 3] = diagonals[n + i + 1];
      u[3 * i + 4] = i + 2 < n ? diagonals[i + 1] : 0;
      memcpy(x + (i + 1) * k, right + (i + 1) * k, (size_t)k * sizeof *x);
    } else {
      bool exchanges = NAMED(exchanges_scaled)(diagonals, n, i, u, &scale);
      NAMED(eliminate)(diagonals, right, n, k, i, exchanges, u, x);
    }
  }
  for (int64_t i = 0; i < 3 * n; ++i)
    largest = MAGNITUDE(u[i]) > largest ? MAGNITUDE(u[i]) : largest;
  for (int64_t i = n - 1; i >= 0; --i) {
    NAMED(substitute)(u, n, k, i, x);
    ELEMENT pivot = NAMED(move_pivot)(u[3 * i], EPSILON * largest, x + i * k, k);
    NAMED(multiply)(x + i * k, 1 / pivot, k);
  }
  return true;
}

static bool NAMED(tridiagonal_solve)(const void *diagonals, const void *right, int64_t n, int64_t k,
                                     solve_kind kind, void *u, void *x) {
  bool good = (kind == SOLVE_STRAIGHT  ? NAMED(solve_straight)
               : kind == SOLVE_PIVOTED ? NAMED(solve_pivoted)
                                       : NAMED(solve_perturbed))(diagonals, right, n, k, u, x);
  for (int64_t i = 0; i < n * k && !good; ++i)
    ((ELEMENT *)x)[i] = NO_SOLUTION;
  return good;
}

/* ---- Products ---- */
static void NAMED(tridiagonal_product)(const void *const *inputs, int64_t n, int64_t k, void *to) {
  const ELEMENT *upper = inputs[0], *main = inputs[1], *lower = inputs[2], *right = inputs[3];
  ELEMENT *out = to;
  for (int64_t i = 0; i < n; ++i, out += k) {
    const ELEMENT *row = right + i * k;
    for (int64_t c = 0; c < k; ++c)
      out[c] = main[i] * row[c];
    for (int64_t c = 0; c < k && i + 1 < n; ++c)
      out[c] += upper[i] * row[c + k];
    for (int64_t c = 0; c < k && i > 0; ++c)
      out[c] += lower[i] * row[c - k];
  }
}

/* ---- Triangles of few bands ---- */
/* Element (i, j) of the matrix that is solved; j is within the bands of i. */
static ELEMENT NAMED(band_element)(const ELEMENT *bands, const band_call *call, int64_t i,
                                   int64_t j) {
  int64_t row = call->adjoint ? j : i, column = call->adjoint ? i : j;
  int64_t band = call->lower ? row - column : call->bands - 1 - (column - row);
  ELEMENT value = bands[band * call->n + row];
  return call->adjoint ? CONJUGATE(value) : value;
}

static void NAMED(band_solve)(const void *bands, const void *right, const band_call *call,
                              void *to) {
  const ELEMENT *given = right;
  ELEMENT *x = to;
  int64_t n = call->n, k = call->k;
  bool forward = call->lower != call->adjoint;
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = forward ? step : n - 1 - step;
    memcpy(x + i * k, given + i * k, (size_t)k * sizeof *x);
    for (int64_t away = 1; away < call->bands && away <= step; ++away) {
      int64_t j = forward ? i - away : i + away;
      NAMED(combine)(x + i * k, x + j * k, NAMED(band_element)(bands, call, i, j), k, x + i * k);
    }
    NAMED(divide)(x + i * k, NAMED(band_element)(bands, call, i, i), k);
  }
}

static bool NAMED(has_zero)(const void *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!(MAGNITUDE(((const ELEMENT *)values)[i]) > 0))
      return true;
  return false;
}

#undef ELEMENT
#undef REAL
#undef MAGNITUDE
#undef CONJUGATE
#undef REAL_PART
#undef EPSILON
#undef SMALLEST
#undef NO_SOLUTION
#undef NAMED
