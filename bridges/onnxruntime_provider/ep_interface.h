/* The part of ONNX Runtime's interface that execution providers serve, declared anew from the
 * published order of its structures (API 24). common/ort_interface.h has the types that all bridges
 * to ONNX Runtime share. Nothing here may change. */
#ifndef BRIDGES_ONNXRUNTIME_PROVIDER_EP_INTERFACE_H
#define BRIDGES_ONNXRUNTIME_PROVIDER_EP_INTERFACE_H

#include <stdbool.h>

#include "common/ort_interface.h"

enum { EP_VERSION = 24 }; /* of the interface that this library asks for and serves */

typedef struct OrtNode OrtNode;
typedef struct OrtGraph OrtGraph;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtMemoryDevice OrtMemoryDevice;
typedef struct OrtSyncStream OrtSyncStream;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtNodeComputeContext OrtNodeComputeContext;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtKernelRegistry OrtKernelRegistry;

typedef enum ep_severity_t {
  EP_VERBOSE = 0,
  EP_INFO = 1,
  EP_WARNING = 2,
  EP_ERROR = 3
} ep_severity_t;

typedef enum ep_hardware_t { EP_HARDWARE_CPU = 0, EP_HARDWARE_NPU = 2 } ep_hardware_t;
typedef enum ep_memory_t { EP_MEMORY_CPU = 0, EP_MEMORY_NPU = 3 } ep_memory_t;

/* Whether a saved context can be used. */
typedef enum ep_compatibility_t {
  EP_NOT_APPLICABLE = 0,
  EP_SUPPORTED = 1,
  EP_PREFERS_RECOMPILATION = 2,
  EP_UNSUPPORTED = 3
} ep_compatibility_t;

typedef struct OrtNodeFusionOptions {
  uint32_t version;
  bool drop_constant_initializers;
} OrtNodeFusionOptions;

/* What runs a compiled group. */
typedef struct OrtNodeComputeInfo {
  uint32_t version;
  OrtStatus *(*CreateState)(struct OrtNodeComputeInfo *self, OrtNodeComputeContext *context,
                            void **out_state);
  OrtStatus *(*Compute)(struct OrtNodeComputeInfo *self, void *state, OrtKernelContext *context);
  void (*ReleaseState)(struct OrtNodeComputeInfo *self, void *state);
} OrtNodeComputeInfo;

typedef struct OrtDataTransferImpl {
  uint32_t version;
  void (*Release)(struct OrtDataTransferImpl *self);
  bool (*CanCopy)(const struct OrtDataTransferImpl *self, const OrtMemoryDevice *from,
                  const OrtMemoryDevice *to);
  OrtStatus *(*CopyTensors)(struct OrtDataTransferImpl *self, const OrtValue **from, OrtValue **to,
                            OrtSyncStream **streams, size_t count);
} OrtDataTransferImpl;

typedef struct OrtSyncNotificationImpl {
  uint32_t version;
  void (*Release)(struct OrtSyncNotificationImpl *self);
  OrtStatus *(*Activate)(struct OrtSyncNotificationImpl *self);
  OrtStatus *(*WaitOnDevice)(struct OrtSyncNotificationImpl *self, OrtSyncStream *consumer);
  OrtStatus *(*WaitOnHost)(struct OrtSyncNotificationImpl *self);
} OrtSyncNotificationImpl;

typedef struct OrtSyncStreamImpl {
  uint32_t version;
  void (*Release)(struct OrtSyncStreamImpl *self);
  void *(*GetHandle)(struct OrtSyncStreamImpl *self);
  OrtStatus *(*CreateNotification)(struct OrtSyncStreamImpl *self, OrtSyncNotificationImpl **out);
  OrtStatus *(*Flush)(struct OrtSyncStreamImpl *self);
  OrtStatus *(*OnSessionRunEnd)(struct OrtSyncStreamImpl *self);
} OrtSyncStreamImpl;

typedef struct OrtEp {
  uint32_t version;
  const char *(*GetName)(const struct OrtEp *self);
  OrtStatus *(*GetCapability)(struct OrtEp *self, const OrtGraph *graph,
                              OrtEpGraphSupportInfo *support);
  OrtStatus *(*Compile)(struct OrtEp *self, const OrtGraph **graphs, const OrtNode **fused,
                        size_t count, OrtNodeComputeInfo **out_infos, OrtNode **out_contexts);
  void (*ReleaseNodeComputeInfos)(struct OrtEp *self, OrtNodeComputeInfo **infos, size_t count);
  OrtStatus *(*GetPreferredDataLayout)(struct OrtEp *self, int *out);
  OrtStatus *(*ShouldConvertDataLayoutForOp)(struct OrtEp *self, const char *domain,
                                             const char *type, int layout, int *out);
  OrtStatus *(*SetDynamicOptions)(struct OrtEp *self, const char *const *keys,
                                  const char *const *values, size_t count);
  OrtStatus *(*OnRunStart)(struct OrtEp *self, const OrtRunOptions *options);
  OrtStatus *(*OnRunEnd)(struct OrtEp *self, const OrtRunOptions *options, bool waits);
  OrtStatus *(*CreateAllocator)(struct OrtEp *self, const OrtMemoryInfo *memory,
                                OrtAllocator **out);
  OrtStatus *(*CreateSyncStreamForDevice)(struct OrtEp *self, const OrtMemoryDevice *device,
                                          OrtSyncStreamImpl **out);
  const char *(*GetCompiledModelCompatibilityInfo)(struct OrtEp *self, const OrtGraph *graph);
  OrtStatus *(*GetKernelRegistry)(struct OrtEp *self, const OrtKernelRegistry **out);
  OrtStatus *(*IsConcurrentRunSupported)(struct OrtEp *self, bool *out);
} OrtEp;

typedef struct OrtEpFactory {
  uint32_t version;
  const char *(*GetName)(const struct OrtEpFactory *self);
  const char *(*GetVendor)(const struct OrtEpFactory *self);
  OrtStatus *(*GetSupportedDevices)(struct OrtEpFactory *self,
                                    const OrtHardwareDevice *const *hardware, size_t count,
                                    OrtEpDevice **out_devices, size_t most, size_t *out_count);
  OrtStatus *(*CreateEp)(struct OrtEpFactory *self, const OrtHardwareDevice *const *hardware,
                         const OrtKeyValuePairs *const *metadata, size_t count,
                         const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **out);
  void (*ReleaseEp)(struct OrtEpFactory *self, OrtEp *ep);
  uint32_t (*GetVendorId)(const struct OrtEpFactory *self);
  const char *(*GetVersion)(const struct OrtEpFactory *self);
  OrtStatus *(*ValidateCompiledModelCompatibilityInfo)(struct OrtEpFactory *self,
                                                       const OrtHardwareDevice *const *hardware,
                                                       size_t count, const char *info,
                                                       ep_compatibility_t *out);
  OrtStatus *(*CreateAllocator)(struct OrtEpFactory *self, const OrtMemoryInfo *memory,
                                const OrtKeyValuePairs *options, OrtAllocator **out);
  void (*ReleaseAllocator)(struct OrtEpFactory *self, OrtAllocator *allocator);
  OrtStatus *(*CreateDataTransfer)(struct OrtEpFactory *self, OrtDataTransferImpl **out);
  bool (*IsStreamAware)(const struct OrtEpFactory *self);
  OrtStatus *(*CreateSyncStreamForDevice)(struct OrtEpFactory *self, const OrtMemoryDevice *device,
                                          const OrtKeyValuePairs *options, OrtSyncStreamImpl **out);
  void *GetHardwareDeviceIncompatibilityDetails; /* not served */
  void *CreateExternalResourceImporterForDevice; /* not served */
  OrtStatus *(*GetNumCustomOpDomains)(struct OrtEpFactory *self, size_t *out);
  OrtStatus *(*GetCustomOpDomains)(struct OrtEpFactory *self, OrtCustomOpDomain **out,
                                   size_t count);
} OrtEpFactory;

/* The beginning of the table of functions for providers. */
typedef struct OrtEpApi {
  OrtStatus *(*CreateEpDevice)(OrtEpFactory *factory, const OrtHardwareDevice *hardware,
                               const OrtKeyValuePairs *metadata, const OrtKeyValuePairs *options,
                               OrtEpDevice **out);
  void (*ReleaseEpDevice)(OrtEpDevice *device);
  OrtStatus *(*EpGraphSupportInfo_AddNodesToFuse)(OrtEpGraphSupportInfo *support,
                                                  const OrtNode *const *nodes, size_t count,
                                                  const OrtNodeFusionOptions *options);
  OrtStatus *(*EpGraphSupportInfo_AddSingleNode)(OrtEpGraphSupportInfo *support,
                                                 const OrtNode *node);
  const char *(*NodeComputeContext_NodeName)(const OrtNodeComputeContext *context);
  OrtStatus *(*EpDevice_AddAllocatorInfo)(OrtEpDevice *device, const OrtMemoryInfo *memory);
  const OrtMemoryDevice *(*MemoryInfo_GetMemoryDevice)(const OrtMemoryInfo *memory);
  const OrtMemoryDevice *(*Value_GetMemoryDevice)(const OrtValue *value);
  bool (*MemoryDevice_AreEqual)(const OrtMemoryDevice *a, const OrtMemoryDevice *b);
  ep_memory_t (*MemoryDevice_GetDeviceType)(const OrtMemoryDevice *device);
  int (*MemoryDevice_GetMemoryType)(const OrtMemoryDevice *device);
  uint32_t (*MemoryDevice_GetVendorId)(const OrtMemoryDevice *device);
  uint32_t (*MemoryDevice_GetDeviceId)(const OrtMemoryDevice *device);
  const OrtSyncStreamImpl *(*SyncStream_GetImpl)(const OrtSyncStream *stream);
  uint64_t (*SyncStream_GetSyncId)(const OrtSyncStream *stream);
  uint64_t (*GetSyncIdForLastWaitOnSyncStream)(const OrtSyncStream *producer,
                                               const OrtSyncStream *consumer);
  OrtStatus *(*CreateHardwareDevice)(ep_hardware_t kind, uint32_t vendor_id, uint32_t device_id,
                                     const char *vendor, const OrtKeyValuePairs *metadata,
                                     OrtHardwareDevice **out);
  void (*ReleaseHardwareDevice)(OrtHardwareDevice *device);
} OrtEpApi;

/* The beginning of the table of functions that build graphs. */
typedef struct OrtModelEditorApi {
  void *CreateTypeInfo[5];
  void *CreateValueInfo;
  OrtStatus *(*CreateNode)(const char *type, const char *domain, const char *name,
                           const char *const *inputs, size_t input_count,
                           const char *const *outputs, size_t output_count, OrtOpAttr **attributes,
                           size_t attribute_count, OrtNode **out);
} OrtModelEditorApi;

_Static_assert(sizeof(OrtEp) == 15 * sizeof(void *), "ONNX Runtime reads this layout");
_Static_assert(sizeof(OrtEpFactory) == 18 * sizeof(void *), "ONNX Runtime reads this layout");

#endif
