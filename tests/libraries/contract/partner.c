/* The library `partner`, which depends on another library: operators with the schemas of
 * `contract`, whose kernels only call those of `contract`, and one more kernel for an operator of
 * `contract`. */
#include <tenon/op.h>

/* Outputs are passed on: the called operator writes to outputs with memory and creates unallocated
 * outputs; an unwanted output becomes a temporary. */
static tenon_status_t hand_on(tenon_call_t *call, int count) {
  tenon_tensor_t *outputs[2];
  for (int o = 0; o < count; o++)
    outputs[o] = call->outputs[o];
  return call->host->invoke(call, call->uses[0], call->attrs, call->inputs, outputs);
}

static tenon_status_t relay(tenon_call_t *call) { return hand_on(call, 1); }
static tenon_status_t relay_two(tenon_call_t *call) { return hand_on(call, 2); }

static tenon_status_t halve_f64(const tenon_loop_t *loop) {
  for (int64_t i = 0; i < loop->count; i++)
    ((double *)loop->data[1])[i] = ((const double *)loop->data[0])[i] / 2;
  return TENON_OK;
}

#define RELAY_(name, schema, types, f)                                                             \
  TENON_OP(schema, TENON_TYPES(types), TENON_TRAITS(TENON_PURE), TENON_USES("contract::" name),    \
           TENON_COMPOSITE(f))
#define RELAY(name, schema, types) RELAY_(name, schema, types, relay)
#define RELAY_TWO(name, schema, types) RELAY_(name, schema, types, relay_two)

#if defined(__x86_64__) && defined(__ELF__)
#define ASSEMBLY(...) __VA_ARGS__,
#else
#define ASSEMBLY(...)
#endif

/* clang-format off */
TENON_LIBRARY(partner, "0.1.0",
  RELAY("split", "split(Tensor x, *, int n, int axis=0) -> Tensor[n]", "x: any; out = x"),
  RELAY("stack", "stack(Tensor[] xs) -> Tensor", "xs: number; out = xs"),
  RELAY("project", "project(Tensor x, Tensor weight, *, int units) -> Tensor",
        "x, weight: f32; out = x"),
  RELAY("project_by_function",
        "project_by_function(Tensor x, Tensor weight, *, int units) -> Tensor",
        "x, weight: f32; out = x"),
  RELAY("fill", "fill(Tensor x, Tensor @host shape) -> Tensor", "x: f32; shape: i64; out = x"),
  RELAY("nonzero", "nonzero(Tensor x) -> Tensor", "x: f32; out = i64"),
  RELAY("collect", "collect(Tensor x, *, float above=0.0) -> Tensor", "x: f32; out = x"),
  RELAY("strip", "strip(Tensor x) -> Tensor", "x: number; out = x"),
  RELAY_TWO("top", "top(Tensor x, *, int k) -> (Tensor values, Tensor? indices)",
            "x: f32; values = x; indices = i64"),
  RELAY("transpose", "transpose(Tensor x) -> Tensor", "x: any; out = x"),
  RELAY("tail", "tail(Tensor x, *, int first=1) -> Tensor", "x: any; out = x"),
  RELAY("flat", "flat(Tensor x) -> Tensor", "x: any; out = x"),
  RELAY("halves", "halves(Tensor x) -> Tensor[2]", "x: any; out = x"),
  RELAY("four", "four(Tensor a, Tensor b, Tensor c, Tensor d) -> Tensor",
        "a, b, c, d: i32; out = a"),
  RELAY("affine", "affine(Tensor x, Tensor? scale=None, Tensor? shift=None) -> Tensor",
        "x, scale, shift: bf16|f16|f32; out = x"),
  RELAY_TWO("both", "both(Tensor a, Tensor b) -> (Tensor sum, Tensor? difference)",
            "a, b: f16|f32; sum, difference = a"),
  RELAY("clamp", "clamp(Tensor x, *, float low=0.0, float high=1.0) -> Tensor", "x: f32; out = x"),
  RELAY("product", "product(Tensor a, Tensor b) -> Tensor", "a, b: f16|f32; out = a"),
  RELAY("length", "length(Tensor text) -> Tensor", "text: string; out = i64"),
  RELAY("halve", "halve(Tensor x) -> Tensor", "x: f16|f32|f64; out = x"),
  RELAY("softmax", "softmax(Tensor x) -> Tensor", "x: bf16|f16|f32; out = x"),
  RELAY("scale", "scale(Tensor x, Tensor gain) -> Tensor", "x, gain: f16|f32; out = x"),
  RELAY_TWO("peak", "peak(Tensor x) -> (Tensor out, Tensor? row)",
            "x: f16|f32; out = x; row = i64"),
  RELAY_TWO("layer_norm",
            "layer_norm(Tensor x, Tensor? gain=None, Tensor? bias=None, *, float epsilon=1e-05) -> "
            "(Tensor out, Tensor? mean)",
            "x, gain, bias: f32; out, mean = x"),
  RELAY("plus_one", "plus_one(Tensor x) -> Tensor", "x: f32; out = x"),
  RELAY("swapped", "swapped(Tensor x) -> Tensor", "x: any; out = x"),
  RELAY("total", "total(Tensor x) -> Tensor", "x: f32; out = x"),
  RELAY_TWO("pick", "pick(Tensor x) -> (Tensor value, Tensor? index)",
            "x: f32; value = x; index = i64"),
  RELAY("median", "median(Tensor x) -> Tensor", "x: f32; out = x"),
  RELAY("upper", "upper(Tensor text) -> Tensor", "text: string; out = text"),
  RELAY("words", "words(Tensor text) -> Tensor", "text: string; out = text"),
  ASSEMBLY(RELAY("negate", "negate(Tensor x) -> Tensor", "x: bf16|f16|f32; out = x"))
  RELAY("checksum", "checksum(Tensor x) -> Tensor", "x: any; out = u32"),
  RELAY("attributes",
        "attributes(*, str['one', 'ten', 'hundred'] size='ten', str text='', int[] numbers=[], "
        "float? extra=None, tensor? given=None) -> Tensor",
        "out = f32"),
  TENON_EXTEND("contract::halve",
    TENON_LOOP("f64 -> f64", halve_f64)))
