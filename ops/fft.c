/* Discrete Fourier transforms; see fft.h. Radix two with decimation in time, and Bluestein's chirp
 * transform for other lengths. */
#include "fft.h"
#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

static int64_t padded_of(int64_t n) {
  int64_t least = n & (n - 1) ? 2 * n - 1 : n;
  int64_t padded = 1;
  while (padded < least)
    padded *= 2;
  return padded;
}

int64_t core_fft_tables(int64_t n) {
  int64_t padded = padded_of(n);
  return padded / 2 + 1 + (padded == n ? 0 : n + padded);
}

int64_t core_fft_work(int64_t n) { return padded_of(n) == n ? 1 : padded_of(n); }

static fft_complex_t complex_times(fft_complex_t a, fft_complex_t b) {
  fft_complex_t c = {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  return c;
}

static fft_complex_t complex_turn(double angle) {
  fft_complex_t c = {cos(angle), sin(angle)};
  return c;
}

/* Transforms `padded` numbers forwards, in place. */
static void radix_two(const fft_t *fft, fft_complex_t *x) {
  int64_t n = fft->padded;
  for (int64_t i = 1, j = 0; i < n; i++) { /* bit reversal */
    int64_t half = n >> 1;
    for (; j & half; half >>= 1)
      j ^= half;
    j |= half;
    if (i < j) {
      fft_complex_t keep = x[i];
      x[i] = x[j];
      x[j] = keep;
    }
  }
  for (int64_t size = 2; size <= n; size *= 2)
    for (int64_t start = 0; start < n; start += size)
      for (int64_t k = 0; k < size / 2; k++) {
        fft_complex_t *a = x + start + k;
        fft_complex_t *b = a + size / 2;
        fft_complex_t t = complex_times(*b, fft->turns[k * (n / size)]);
        b->re = a->re - t.re;
        b->im = a->im - t.im;
        a->re += t.re;
        a->im += t.im;
      }
}

static void conjugate_numbers(fft_complex_t *x, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    x[i].im = -x[i].im;
}

void core_fft_set(fft_t *fft, int64_t n, fft_complex_t *memory) {
  int64_t padded = padded_of(n);
  fft_complex_t *turns = memory;
  fft_complex_t *chirp = turns + padded / 2 + 1;
  fft_complex_t *kernel = chirp + n;
  for (int64_t k = 0; k < padded / 2; k++)
    turns[k] = complex_turn(-2 * PI * (double)k / (double)padded);
  *fft = (fft_t){.n = n, .padded = padded, .turns = turns};
  if (padded == n) return;
  memset(kernel, 0, (size_t)padded * sizeof *kernel);
  for (int64_t k = 0; k < n; k++) {
    chirp[k] = complex_turn(-PI * (double)(k * k % (2 * n)) /
                            (double)n); /* reduced modulo 2 n, so that large angles stay exact */
    kernel[k] = chirp[k];
    kernel[k].im = -kernel[k].im;
    if (k) kernel[padded - k] = kernel[k];
  }
  radix_two(fft, kernel);
  fft->chirp = chirp;
  fft->kernel = kernel;
}

void core_fft_run(const fft_t *fft, fft_complex_t *x, int backwards, fft_complex_t *work) {
  if (backwards) conjugate_numbers(x, fft->n);
  if (!fft->chirp) {
    radix_two(fft, x);
  } else {
    memset(work, 0, (size_t)fft->padded * sizeof *work);
    for (int64_t k = 0; k < fft->n; k++)
      work[k] = complex_times(x[k], fft->chirp[k]);
    radix_two(fft, work);
    for (int64_t k = 0; k < fft->padded; k++)
      work[k] = complex_times(work[k], fft->kernel[k]);
    conjugate_numbers(
        work, fft->padded); /* the inverse is a forward transform between two conjugations */
    radix_two(fft, work);
    for (int64_t k = 0; k < fft->n; k++) {
      fft_complex_t c = {work[k].re / (double)fft->padded, -work[k].im / (double)fft->padded};
      x[k] = complex_times(c, fft->chirp[k]);
    }
  }
  if (backwards) conjugate_numbers(x, fft->n);
}
