/* The kernel for CUDA, which computes four elements at a time, where their number and addresses
 * allow it. It is enqueued on the stream of the call, like all work of a kernel. */
#include <cuda_runtime.h>
#include <tenon/device.h>

static __global__ void softcap_by_4(const float4 *x, float4 *y, int64_t n, float cap) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 v = x[i];
  y[i] = make_float4(cap * tanhf(v.x / cap), cap * tanhf(v.y / cap), cap * tanhf(v.z / cap),
                     cap * tanhf(v.w / cap));
}

extern "C" tenon_status_t softcap_cuda(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0], *y = call->outputs[0];
  const int64_t n = tenon_count(x) / 4, groups = (n + 255) / 256;
  const bool aligned =
      ((uintptr_t)x->data | (uintptr_t)y->data) % sizeof(float4) == 0 && tenon_count(x) % 4 == 0;
  /* The source kernel serves calls that this kernel declines. */
  if (!aligned || groups > INT32_MAX)
    return tenon_fail(call, TENON_UNIMPLEMENTED, "elements do not lie by fours");
  if (!n) return TENON_OK;
  /* This also makes the GPU of the call the current one of the thread. */
  cudaStream_t stream = (cudaStream_t)call->host->native(call, "CUstream");
  softcap_by_4<<<(unsigned)groups, 256, 0, stream>>>((const float4 *)x->data, (float4 *)y->data, n,
                                                     (float)call->attrs[0].as.f);
  /* An error of the launch. The device finds what fails later. */
  cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess)
    return tenon_fail(call, TENON_ABORTED, "softcap: %s", cudaGetErrorString(error));
  return TENON_OK;
}
