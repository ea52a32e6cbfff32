/* Discrete Fourier transforms of one length, in double precision. Used by spectral.c: tables are
 * made once for a call, each thread brings its own work space. Invariant: any length works; those
 * that are no power of two go through a convolution of one (Bluestein 1970). */
#ifndef TENON_OPS_FFT_H
#define TENON_OPS_FFT_H

#include <stdint.h>

typedef struct fft_complex_t {
  double re;
  double im;
} fft_complex_t;

typedef struct fft_t {
  int64_t n;
  int64_t padded;              /* padded: the power of two that is transformed */
  const fft_complex_t *turns;  /* exp(-2 pi i k / padded), k < padded / 2 */
  const fft_complex_t *chirp;  /* exp(-pi i k^2 / n), k < n; NULL: n is a power of two */
  const fft_complex_t *kernel; /* the transform of the chirp's conjugate */
} fft_t;

/* Complex numbers that tables of this length, and the work space of one transform, take. */
int64_t core_fft_tables(int64_t n);
int64_t core_fft_work(int64_t n);
/* memory: core_fft_tables(n) numbers, then core_fft_work(n) that are free again afterwards. */
void core_fft_set(fft_t *fft, int64_t n, fft_complex_t *memory);
/* x[k] := sum over j of x[j] exp(-+2 pi i j k / n), - forwards; unscaled. */
void core_fft_run(const fft_t *fft, fft_complex_t *x, int backwards, fft_complex_t *work);

#endif
