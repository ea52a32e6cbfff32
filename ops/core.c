/* The library `core`: every built-in operator, linked into libtenon as any author would link a
 * library statically. Each family is a group of items in its own file.
 * Invariant: nothing here sees more than the public headers for authors (op.h, iterator.h,
 * source.h, check.h, device.h). One group, core_required, belongs to the host because its kernels
 * change tensor headers and storage (src/layers/required.c). */
#include <tenon/op.h>

/* clang-format off */
#define FAMILIES(X)                                                                                \
  X(core_view)                                                                                     \
  X(core_view_strided)                                                                             \
  X(core_empty)                                                                                    \
  X(core_required)                                                                                 \
  X(core_copy)                                                                                     \
  X(core_memory)                                                                                   \
  X(core_fill)                                                                                     \
  X(core_join)                                                                                     \
  X(core_pad)                                                                                      \
  X(core_gather)                                                                                   \
  X(core_scatter)                                                                                  \
  X(core_select)                                                                                   \
  X(core_sort)                                                                                     \
  X(core_cumulative)                                                                               \
  X(core_unfold)                                                                                   \
  X(core_sample)                                                                                   \
  X(core_boxes)                                                                                    \
  X(core_text)                                                                                     \
  X(core_reduction)                                                                                \
  X(core_softmax)                                                                                  \
  X(core_norm)                                                                                     \
  X(core_channel)                                                                                  \
  X(core_resize)                                                                                   \
  X(core_quantise)                                                                                 \
  X(core_qlinear_add)                                                                              \
  X(core_arithmetic)                                                                               \
  X(core_power)                                                                                    \
  X(core_transcendental)                                                                           \
  X(core_activation)                                                                               \
  X(core_comparison)                                                                               \
  X(core_logic)                                                                                    \
  X(core_selection)                                                                                \
  X(core_conversion)                                                                               \
  X(core_random)                                                                                   \
  X(core_matmul)                                                                                   \
  X(core_conv)                                                                                     \
  X(core_pool)                                                                                     \
  X(core_attention)                                                                                \
  X(core_recurrent)                                                                                \
  X(core_integer)                                                                                  \
  X(core_map_bytes)                                                                                \
  X(core_matmul_nbits)                                                                             \
  X(core_einsum)                                                                                   \
  X(core_matmul_backward)                                                                          \
  X(core_finish_backward)                                                                          \
  X(core_conv_backward)                                                                            \
  X(core_conv_weight)                                                                              \
  X(core_pool_backward)                                                                            \
  X(core_index_backward)                                                                           \
  X(core_product_backward)                                                                         \
  X(core_einsum_backward)                                                                          \
  X(core_parts_backward)                                                                           \
  X(core_norm_backward)                                                                            \
  X(core_channel_backward)                                                                         \
  X(core_spectral_backward)                                                                        \
  X(core_resize_backward)                                                                          \
  X(core_deform_backward)                                                                          \
  X(core_deform)                                                                                   \
  X(core_rotary)                                                                                   \
  X(core_linear_attention)                                                                         \
  X(core_determinant)                                                                              \
  X(core_spectral)                                                                                 \
  X(core_control)                                                                                  \
  X(core_list)                                                                                     \
  X(core_mel)                                                                                      \
  X(core_regex)                                                                                    \
  X(core_trees)                                                                                    \
  X(core_classes)                                                                                  \
  X(core_categories)                                                                               \
  X(core_autocast)                                                                                 \
  X(core_strided)                                                                                  \
  X(core_sparse)

/* The files of simd/ compiled again for an instruction set; they extend operators of the list
 * above. */
#if defined(__x86_64__) || defined(_M_X64)
#define SIMD_FAMILIES(X)                                                                           \
  BOTH(X, core_arithmetic)                                                                         \
  BOTH(X, core_power)                                                                              \
  BOTH(X, core_transcendental)                                                                     \
  BOTH(X, core_activation)                                                                         \
  BOTH(X, core_comparison)                                                                         \
  BOTH(X, core_logic)                                                                              \
  BOTH(X, core_selection)                                                                          \
  BOTH(X, core_conversion)                                                                         \
  BOTH(X, core_reduction)                                                                          \
  BOTH(X, core_softmax)                                                                            \
  BOTH(X, core_norm)                                                                               \
  BOTH(X, core_channel)                                                                            \
  BOTH(X, core_resize)                                                                             \
  BOTH(X, core_quantise)                                                                           \
  BOTH(X, core_qlinear_add)                                                                        \
  BOTH(X, core_attention)
#define BOTH(X, name) X(name##_avx2) X(name##_avx512)
#else
#define SIMD_FAMILIES(X)
#endif

/* The kernels of dnn/ replace the plain kernels for the dtypes that they name. */
#ifdef TENON_ONEDNN
#define DNN_FAMILIES(X)                                                                            \
  X(core_dnn_matmul)                                                                               \
  X(core_dnn_convolution)                                                                          \
  X(core_dnn_pool)                                                                                 \
  X(core_dnn_conv_weight)                                                                          \
  X(core_dnn_recurrent)
#else
#define DNN_FAMILIES(X)
#endif

/* Source kernels, for devices that compile and have no kernels of their own. */
#define SOURCE_FAMILIES(X)                                                                         \
  X(core_source_pointwise)                                                                         \
  X(core_source_integers)                                                                          \
  X(core_source_move)                                                                              \
  X(core_source_rows)                                                                              \
  X(core_source_product)                                                                           \
  X(core_source_window)                                                                            \
  X(core_source_resize)                                                                            \
  X(core_source_index)                                                                             \
  X(core_source_cast)
/* clang-format on */

#define DECLARE(name) TENON_C const tenon_item_t name[];
/* clang-format off */
#define GROUP(name) , TENON_GROUP(name)
FAMILIES(DECLARE)
SIMD_FAMILIES(DECLARE)
DNN_FAMILIES(DECLARE)
SOURCE_FAMILIES(DECLARE)

TENON_LIBRARY(core,
  "1.0.0",
  TENON_ABOUT("author: the Tenon developers\nlicence: Apache-2.0")
  FAMILIES(GROUP)
  SIMD_FAMILIES(GROUP)
  DNN_FAMILIES(GROUP)
  SOURCE_FAMILIES(GROUP))
/* clang-format on */
