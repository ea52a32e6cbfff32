/* The operators of com.microsoft and of ONNX Runtime's layouts that are refused by name, with what
 * to do instead. */
#include <string.h>

#include "import/onnx/lower.h"

/* clang-format off */
#define SEARCH                                                                                     \
  "it runs a decoder in a loop of its own: export the decoder and search in the program"
#define DEVICE "ONNX Runtime has no kernel for it on the CPU: export the model for the CPU"
#define SERVER                                                                                     \
  "it serves packed batches and paged caches: export the model with GroupQueryAttention"
#define EXPERTS "export the experts as ordinary nodes"
#define TRAINING "it belongs to training: export the model for inference"
#define ORDER "its weights are in an order of a GPU: quantise the model for the CPU"
#define OTHER "it has no counterpart here: export this part of the model as operators of ONNX"
#define BINARY                                                                                     \
  "its content is for a device of another vendor: load the model from which it was made"

#define REFUSED(X)                                                                                 \
  X(BeamSearch, SEARCH) X(GreedySearch, SEARCH) X(Sampling, SEARCH) X(WhisperBeamSearch, SEARCH)   \
  X(DecoderAttention, DEVICE) X(DecoderMaskedSelfAttention, DEVICE)                                \
  X(DecoderMaskedMultiHeadAttention, "its cache is shared by past and present: export the decoder "\
    "with MultiHeadAttention") \
  X(PackedAttention, DEVICE) X(PackedMultiHeadAttention, DEVICE)  \
  X(LongformerAttention, DEVICE) X(GatedRelativePositionBias, DEVICE)                              \
  X(RelativePositionBias, DEVICE) X(RemovePadding, DEVICE) X(RestorePadding, DEVICE)               \
  X(BiasSoftmax, DEVICE) X(GroupNorm, DEVICE) X(SkipGroupNorm, DEVICE) X(ComplexMul, DEVICE)       \
  X(ComplexMulConj, DEVICE) X(Rfft, DEVICE) X(Irfft, DEVICE) X(GemmFloat8, DEVICE)                 \
  X(GemmaRotaryEmbedding, DEVICE) X(FusedMatMulActivation, DEVICE) X(QuantizeBFP, DEVICE)          \
  X(DequantizeBFP, DEVICE) X(TorchEmbedding, DEVICE) X(MulInteger, DEVICE)                         \
  X(ReduceSumInteger, DEVICE) X(MatMulBlockQuantizedFp4Weight, DEVICE)                             \
  X(MatMulBlockQuantizedFp8Weight, DEVICE) X(MatMulNBitsMlp, DEVICE) X(MatMulNBitsQkv, DEVICE)     \
  X(GatedDeltaNet, DEVICE) X(VarlenCausalConvWithState, DEVICE)                                    \
  X(PagedAttention, SERVER) X(SparsePagedAttention, SERVER) X(SparseAttention, SERVER)             \
  X(SparseAttentionIndexer, SERVER) X(PackedSparseAttentionIndexer, SERVER)                        \
  X(DynamicSparseAttention, SERVER)                                                                \
  X(MoE, EXPERTS) X(QMoE, EXPERTS)                                                                 \
  X(BitmaskDropout, TRAINING) X(BitmaskBiasDropout, TRAINING) X(IsAllFinite, TRAINING)             \
  X(QuantizeWithOrder, ORDER) X(DequantizeWithOrder, ORDER) X(QOrderedAttention, ORDER)            \
  X(QOrderedGelu, ORDER) X(QOrderedLayerNormalization, ORDER) X(QOrderedMatMul, ORDER)             \
  X(QOrderedLongformerAttention, ORDER)                                                            \
  X(EPContext, BINARY) X(Snpe, BINARY)                                                             \
  X(MatMulBnb4, "quantise the weights for MatMulNBits")                                            \
  X(MatMulFpQ4, "quantise the weights for MatMulNBits")                                            \
  X(AttnLSTM, OTHER) X(BifurcationDetector, OTHER) X(BranchwiseRMSNorm, OTHER)                     \
  X(DynamicTimeWarping, OTHER) X(EngramGate, OTHER) X(HyperConnectionPostMix, OTHER)               \
  X(HyperConnectionPreMix, OTHER) X(MatMulInteger16, OTHER) X(MaxpoolWithMask, OTHER)              \
  X(MRotaryEmbedding, OTHER) X(MurmurHash3, OTHER) X(NGramHashMapping, OTHER)                      \
  X(SparseToDenseMatMul, OTHER) X(Tokenizer, OTHER) X(VarlenNGramHashMapping, OTHER)               \
  X(WordConvEmbedding, OTHER)

static const struct {
  const char *name;
  const char *advice;
} refusals[] = {
#define ROW(name, advice) {#name, advice},
  REFUSED(ROW)
#undef ROW
};

static void refuse_operator(tn_lower_t *lower) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
    if (strcmp(refusals[i].name, lower->node->type) == 0)
      tn_lower_missing(lower, "this operator of ONNX Runtime is not supported: %s",
                       refusals[i].advice);
}

static const tn_lowering_t lowerings[] = {
#define ROW(name, advice) {#name, 1, refuse_operator},
  REFUSED(ROW)
#undef ROW
};
/* clang-format on */

TN_LOWERINGS(tn_lowerings_contrib_refused, "com.microsoft");
