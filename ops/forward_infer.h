/* infer functions of operators whose gradients are in another file and are checked against them. */
#ifndef TENON_OPS_FORWARD_INFER_H
#define TENON_OPS_FORWARD_INFER_H

#include <tenon/op.h>

tenon_status_t core_dft_infer(tenon_infer_t *infer); /* spectral.c */
tenon_status_t core_stft_infer(tenon_infer_t *infer);
tenon_status_t core_cumulative_infer(tenon_infer_t *infer);     /* cumulative.c */
tenon_status_t core_tensor_scatter_infer(tenon_infer_t *infer); /* scatter.c */

#endif
