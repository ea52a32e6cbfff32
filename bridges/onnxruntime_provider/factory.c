/* What ONNX Runtime finds in the library: a factory, its devices, a provider for each session. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "provider.h"

/* ---- the provider of a session --------------------------------------------------------------- */

static const char *name_of_ep(const OrtEp *ep) { return ((const provider_t *)ep)->factory->name; }

static OrtStatus *allow_runs(OrtEp *ep, bool *out) {
  (void)ep;
  *out = true;
  return NULL;
}

static const char *describe_groups(OrtEp *ep, const OrtGraph *graph) {
  provider_t *provider = (provider_t *)ep;
  (void)graph;
  context_describe(provider, provider->description, sizeof provider->description);
  return provider->description;
}

static void release_ep(OrtEpFactory *factory, OrtEp *ep) {
  provider_t *provider = (provider_t *)ep;
  (void)factory;
  if (!provider) return;
  provider_forget(provider);
  options_clear(&provider->options);
  free(provider);
}

static OrtStatus *create_ep(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware,
                            const OrtKeyValuePairs *const *metadata, size_t count,
                            const OrtSessionOptions *session, const OrtLogger *logger,
                            OrtEp **out) {
  (void)hardware;
  (void)metadata;
  (void)count;
  *out = NULL;
  provider_t *provider = calloc(1, sizeof *provider);
  if (!provider) return api_status(tn_no_memory("a session", 0), PROVIDER_NAME);
  provider->logger = logger;
  provider->factory = (const factory_t *)factory;
  provider->ep = (OrtEp){.version = EP_VERSION,
                         .GetName = name_of_ep,
                         .GetCapability = provider_capability,
                         .Compile = provider_compile,
                         .ReleaseNodeComputeInfos = provider_release_infos,
                         .GetCompiledModelCompatibilityInfo = describe_groups,
                         .IsConcurrentRunSupported = allow_runs};
  const tenon_status_t status = options_read(session, provider->factory->name, &provider->options);
  if (status == TENON_OK)
    *out = &provider->ep;
  else
    release_ep(factory, &provider->ep);
  return api_status(status, "the session");
}

/* ---- the factory ----------------------------------------------------------------------------- */

static const char *name_of_factory(const OrtEpFactory *factory) {
  return ((const factory_t *)factory)->name;
}

static const char *name_of_vendor(const OrtEpFactory *factory) {
  (void)factory;
  return PROVIDER_NAME;
}

static uint32_t id_of_vendor(const OrtEpFactory *factory) {
  (void)factory;
  return 0;
}

static const char *version_of_factory(const OrtEpFactory *factory) {
  (void)factory;
  return tenon_version();
}

/* The processor is the hardware of all devices: ONNX Runtime does not know that of others. */
static OrtStatus *list_devices(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware,
                               size_t count, OrtEpDevice **out_devices, size_t most,
                               size_t *out_count) {
  *out_count = 0;
  for (size_t i = 0; i < count && *out_count < most; i++) {
    if (api.HardwareDevice_Type(hardware[i]) != EP_HARDWARE_CPU) continue;
    OrtStatus *status = api.ep->CreateEpDevice(factory, hardware[i], NULL, NULL, out_devices);
    const OrtMemoryInfo *memory = ((factory_t *)factory)->memory;
    if (!status && memory) status = api.ep->EpDevice_AddAllocatorInfo(*out_devices, memory);
    *out_count = status ? 0 : 1;
    return status;
  }
  return NULL;
}

static OrtStatus *judge_context(OrtEpFactory *factory, const OrtHardwareDevice *const *hardware,
                                size_t count, const char *info, ep_compatibility_t *out) {
  (void)factory;
  (void)hardware;
  (void)count;
  *out = context_judge(info);
  return NULL;
}

/* The name of the registration chooses the device: "tenon", "tenon:sim:0". */
static tenon_status_t name_factory(factory_t *factory, const char *name) {
  static const char prefix[] = PROVIDER_NAME ":";
  const bool has_device = strncmp(name, prefix, sizeof prefix - 1) == 0;
  factory->name = strdup(has_device ? name : PROVIDER_NAME);
  if (!factory->name) return tn_no_memory("a factory", 0);
  factory->device_name = has_device ? factory->name + sizeof prefix - 1 : "cpu";
  if (!has_device) return TENON_OK;
  const tenon_status_t status = device_open(factory->device_name, &factory->device);
  return status == TENON_OK ? API(CreateMemoryInfo_V2, factory->name, EP_MEMORY_NPU, 0,
                                  factory->device.id, 0, 64, 0, &factory->memory)
                            : status;
}

static void release_factory(factory_t *factory) {
  if (factory && factory->memory) api.ReleaseMemoryInfo(factory->memory);
  if (factory) free(factory->name);
  free(factory);
}

TENON_EXPORT OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base,
                                          const OrtLogger *logger, OrtEpFactory **out_factories,
                                          size_t most, size_t *out_count);
OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                             OrtEpFactory **out_factories, size_t most, size_t *out_count) {
  (void)logger;
  *out_count = 0;
  const char *why = api_open(base);
  if (why) return api.CreateStatus(ORT_FAIL, why);
  factory_t *factory = calloc(1, sizeof *factory);
  tenon_status_t status = TENON_OK;
  if (!factory || !most) status = tn_no_memory("a factory", 0);
  if (status == TENON_OK) status = name_factory(factory, name);
  if (status != TENON_OK) {
    release_factory(factory);
    return api_status(status, name);
  }
  factory->factory = (OrtEpFactory){.version = EP_VERSION,
                                    .GetName = name_of_factory,
                                    .GetVendor = name_of_vendor,
                                    .GetSupportedDevices = list_devices,
                                    .CreateEp = create_ep,
                                    .ReleaseEp = release_ep,
                                    .GetVendorId = id_of_vendor,
                                    .GetVersion = version_of_factory,
                                    .ValidateCompiledModelCompatibilityInfo = judge_context};
  device_serve(factory);
  stream_serve(factory);
  out_factories[0] = &factory->factory;
  *out_count = 1;
  return NULL;
}

TENON_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);
OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  release_factory((factory_t *)factory);
  return NULL;
}
