/* Discrete Fourier transforms of one length, in double precision. Used by spectral.c: tables are
 * created once per call, and each thread brings its own work space.
 * Invariant: every length works; a length that is not a power of two is computed by a convolution
 * of such a length (Bluestein 1970). */
#ifndef TENON_OPS_FFT_H
#define TENON_OPS_FFT_H

#include <stdint.h>

typedef struct fft_complex_t {
  double re;
  double im;
} fft_complex_t;

typedef struct fft_t {
  int64_t n;
  int64_t padded;              /* the power of two that is transformed */
  const fft_complex_t *turns;  /* exp(-2 pi i k / padded), k < padded / 2 */
  const fft_complex_t *chirp;  /* exp(-pi i k^2 / n), k < n; NULL: n is a power of two */
  const fft_complex_t *kernel; /* the transform of the chirp's conjugate */
} fft_t;

/* The number of complex numbers in the tables of this length, and in the work space of one
 * transform. */
int64_t core_fft_tables(int64_t n);
int64_t core_fft_work(int64_t n);
/* Fills the tables. `memory` holds core_fft_tables(n) numbers, then core_fft_work(n) that are free
 * afterwards. */
void core_fft_set(fft_t *fft, int64_t n, fft_complex_t *memory);
/* Replaces x[k] by the sum over j of x[j] exp(-+2 pi i j k / n), with - forwards; not scaled. */
void core_fft_run(const fft_t *fft, fft_complex_t *x, int backwards, fft_complex_t *work);

#endif
