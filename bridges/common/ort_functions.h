/* The functions of the table OrtApi, in its order, which is fixed for ever. The comments name the
 * version that added the functions below them.
 *
 * SERVED: a function that the bridge for libraries of custom operators serves, under the same name
 * with the prefix `ort_`.
 * REFUSED: a function that returns a status; it fails with a status that has its name.
 * IGNORED: a function without a result; it does nothing.
 * NOTHING: a function with another result; it returns 0. */
#ifndef BRIDGES_COMMON_ORT_FUNCTIONS_H
#define BRIDGES_COMMON_ORT_FUNCTIONS_H

/* clang-format off */
#define ORT_FUNCTIONS(SERVED, REFUSED, IGNORED, NOTHING) \
  /* 1.1 */ \
  SERVED(CreateStatus) \
  SERVED(GetErrorCode) \
  SERVED(GetErrorMessage) \
  REFUSED(CreateEnv) \
  REFUSED(CreateEnvWithCustomLogger) \
  REFUSED(EnableTelemetryEvents) \
  REFUSED(DisableTelemetryEvents) \
  REFUSED(CreateSession) \
  REFUSED(CreateSessionFromArray) \
  REFUSED(Run) \
  REFUSED(CreateSessionOptions) \
  REFUSED(SetOptimizedModelFilePath) \
  REFUSED(CloneSessionOptions) \
  REFUSED(SetSessionExecutionMode) \
  REFUSED(EnableProfiling) \
  REFUSED(DisableProfiling) \
  REFUSED(EnableMemPattern) \
  REFUSED(DisableMemPattern) \
  REFUSED(EnableCpuMemArena) \
  REFUSED(DisableCpuMemArena) \
  REFUSED(SetSessionLogId) \
  REFUSED(SetSessionLogVerbosityLevel) \
  REFUSED(SetSessionLogSeverityLevel) \
  REFUSED(SetSessionGraphOptimizationLevel) \
  REFUSED(SetIntraOpNumThreads) \
  REFUSED(SetInterOpNumThreads) \
  SERVED(CreateCustomOpDomain) \
  SERVED(CustomOpDomain_Add) \
  SERVED(AddCustomOpDomain) \
  REFUSED(RegisterCustomOpsLibrary) \
  REFUSED(SessionGetInputCount) \
  REFUSED(SessionGetOutputCount) \
  REFUSED(SessionGetOverridableInitializerCount) \
  REFUSED(SessionGetInputTypeInfo) \
  REFUSED(SessionGetOutputTypeInfo) \
  REFUSED(SessionGetOverridableInitializerTypeInfo) \
  REFUSED(SessionGetInputName) \
  REFUSED(SessionGetOutputName) \
  REFUSED(SessionGetOverridableInitializerName) \
  REFUSED(CreateRunOptions) \
  REFUSED(RunOptionsSetRunLogVerbosityLevel) \
  REFUSED(RunOptionsSetRunLogSeverityLevel) \
  REFUSED(RunOptionsSetRunTag) \
  REFUSED(RunOptionsGetRunLogVerbosityLevel) \
  REFUSED(RunOptionsGetRunLogSeverityLevel) \
  REFUSED(RunOptionsGetRunTag) \
  REFUSED(RunOptionsSetTerminate) \
  REFUSED(RunOptionsUnsetTerminate) \
  SERVED(CreateTensorAsOrtValue) \
  SERVED(CreateTensorWithDataAsOrtValue) \
  SERVED(IsTensor) \
  SERVED(GetTensorMutableData) \
  SERVED(FillStringTensor) \
  SERVED(GetStringTensorDataLength) \
  SERVED(GetStringTensorContent) \
  SERVED(CastTypeInfoToTensorInfo) \
  SERVED(GetOnnxTypeFromTypeInfo) \
  SERVED(CreateTensorTypeAndShapeInfo) \
  SERVED(SetTensorElementType) \
  SERVED(SetDimensions) \
  SERVED(GetTensorElementType) \
  SERVED(GetDimensionsCount) \
  SERVED(GetDimensions) \
  SERVED(GetSymbolicDimensions) \
  SERVED(GetTensorShapeElementCount) \
  SERVED(GetTensorTypeAndShape) \
  SERVED(GetTypeInfo) \
  SERVED(GetValueType) \
  SERVED(CreateMemoryInfo) \
  SERVED(CreateCpuMemoryInfo) \
  SERVED(CompareMemoryInfo) \
  SERVED(MemoryInfoGetName) \
  SERVED(MemoryInfoGetId) \
  SERVED(MemoryInfoGetMemType) \
  SERVED(MemoryInfoGetType) \
  SERVED(AllocatorAlloc) \
  SERVED(AllocatorFree) \
  SERVED(AllocatorGetInfo) \
  SERVED(GetAllocatorWithDefaultOptions) \
  REFUSED(AddFreeDimensionOverride) \
  REFUSED(GetValue) \
  REFUSED(GetValueCount) \
  REFUSED(CreateValue) \
  REFUSED(CreateOpaqueValue) \
  REFUSED(GetOpaqueValue) \
  SERVED(KernelInfoGetAttribute_float) \
  SERVED(KernelInfoGetAttribute_int64) \
  SERVED(KernelInfoGetAttribute_string) \
  SERVED(KernelContext_GetInputCount) \
  SERVED(KernelContext_GetOutputCount) \
  SERVED(KernelContext_GetInput) \
  SERVED(KernelContext_GetOutput) \
  IGNORED(ReleaseEnv) \
  SERVED(ReleaseStatus) \
  SERVED(ReleaseMemoryInfo) \
  IGNORED(ReleaseSession) \
  SERVED(ReleaseValue) \
  IGNORED(ReleaseRunOptions) \
  SERVED(ReleaseTypeInfo) \
  SERVED(ReleaseTensorTypeAndShapeInfo) \
  IGNORED(ReleaseSessionOptions) \
  SERVED(ReleaseCustomOpDomain) \
  /* 1.2 */ \
  SERVED(GetDenotationFromTypeInfo) \
  SERVED(CastTypeInfoToMapTypeInfo) \
  SERVED(CastTypeInfoToSequenceTypeInfo) \
  REFUSED(GetMapKeyType) \
  REFUSED(GetMapValueType) \
  REFUSED(GetSequenceElementType) \
  IGNORED(ReleaseMapTypeInfo) \
  IGNORED(ReleaseSequenceTypeInfo) \
  REFUSED(SessionEndProfiling) \
  REFUSED(SessionGetModelMetadata) \
  REFUSED(ModelMetadataGetProducerName) \
  REFUSED(ModelMetadataGetGraphName) \
  REFUSED(ModelMetadataGetDomain) \
  REFUSED(ModelMetadataGetDescription) \
  REFUSED(ModelMetadataLookupCustomMetadataMap) \
  REFUSED(ModelMetadataGetVersion) \
  IGNORED(ReleaseModelMetadata) \
  /* 1.3 */ \
  REFUSED(CreateEnvWithGlobalThreadPools) \
  REFUSED(DisablePerSessionThreads) \
  REFUSED(CreateThreadingOptions) \
  IGNORED(ReleaseThreadingOptions) \
  REFUSED(ModelMetadataGetCustomMetadataMapKeys) \
  REFUSED(AddFreeDimensionOverrideByName) \
  /* 1.4 */ \
  REFUSED(GetAvailableProviders) \
  REFUSED(ReleaseAvailableProviders) \
  /* 1.5 */ \
  SERVED(GetStringTensorElementLength) \
  SERVED(GetStringTensorElement) \
  SERVED(FillStringTensorElement) \
  REFUSED(AddSessionConfigEntry) \
  REFUSED(CreateAllocator) \
  SERVED(ReleaseAllocator) \
  REFUSED(RunWithBinding) \
  REFUSED(CreateIoBinding) \
  IGNORED(ReleaseIoBinding) \
  REFUSED(BindInput) \
  REFUSED(BindOutput) \
  REFUSED(BindOutputToDevice) \
  REFUSED(GetBoundOutputNames) \
  REFUSED(GetBoundOutputValues) \
  IGNORED(ClearBoundInputs) \
  IGNORED(ClearBoundOutputs) \
  SERVED(TensorAt) \
  REFUSED(CreateAndRegisterAllocator) \
  REFUSED(SetLanguageProjection) \
  REFUSED(SessionGetProfilingStartTimeNs) \
  REFUSED(SetGlobalIntraOpNumThreads) \
  REFUSED(SetGlobalInterOpNumThreads) \
  REFUSED(SetGlobalSpinControl) \
  /* 1.6 */ \
  REFUSED(AddInitializer) \
  REFUSED(CreateEnvWithCustomLoggerAndGlobalThreadPools) \
  REFUSED(SessionOptionsAppendExecutionProvider_CUDA) \
  REFUSED(SessionOptionsAppendExecutionProvider_ROCM) \
  REFUSED(SessionOptionsAppendExecutionProvider_OpenVINO) \
  REFUSED(SetGlobalDenormalAsZero) \
  REFUSED(CreateArenaCfg) \
  IGNORED(ReleaseArenaCfg) \
  /* 1.7 */ \
  REFUSED(ModelMetadataGetGraphDescription) \
  REFUSED(SessionOptionsAppendExecutionProvider_TensorRT) \
  REFUSED(SetCurrentGpuDeviceId) \
  REFUSED(GetCurrentGpuDeviceId) \
  /* 1.8 */ \
  SERVED(KernelInfoGetAttributeArray_float) \
  SERVED(KernelInfoGetAttributeArray_int64) \
  REFUSED(CreateArenaCfgV2) \
  REFUSED(AddRunConfigEntry) \
  REFUSED(CreatePrepackedWeightsContainer) \
  IGNORED(ReleasePrepackedWeightsContainer) \
  REFUSED(CreateSessionWithPrepackedWeightsContainer) \
  REFUSED(CreateSessionFromArrayWithPrepackedWeightsContainer) \
  /* 1.9 */ \
  REFUSED(SessionOptionsAppendExecutionProvider_TensorRT_V2) \
  REFUSED(CreateTensorRTProviderOptions) \
  REFUSED(UpdateTensorRTProviderOptions) \
  REFUSED(GetTensorRTProviderOptionsAsString) \
  IGNORED(ReleaseTensorRTProviderOptions) \
  REFUSED(EnableOrtCustomOps) \
  REFUSED(RegisterAllocator) \
  REFUSED(UnregisterAllocator) \
  SERVED(IsSparseTensor) \
  REFUSED(CreateSparseTensorAsOrtValue) \
  REFUSED(FillSparseTensorCoo) \
  REFUSED(FillSparseTensorCsr) \
  REFUSED(FillSparseTensorBlockSparse) \
  REFUSED(CreateSparseTensorWithValuesAsOrtValue) \
  REFUSED(UseCooIndices) \
  REFUSED(UseCsrIndices) \
  REFUSED(UseBlockSparseIndices) \
  REFUSED(GetSparseTensorFormat) \
  REFUSED(GetSparseTensorValuesTypeAndShape) \
  REFUSED(GetSparseTensorValues) \
  REFUSED(GetSparseTensorIndicesTypeShape) \
  REFUSED(GetSparseTensorIndices) \
  /* 1.10 */ \
  SERVED(HasValue) \
  SERVED(KernelContext_GetGPUComputeStream) \
  SERVED(GetTensorMemoryInfo) \
  REFUSED(GetExecutionProviderApi) \
  REFUSED(SessionOptionsSetCustomCreateThreadFn) \
  REFUSED(SessionOptionsSetCustomThreadCreationOptions) \
  REFUSED(SessionOptionsSetCustomJoinThreadFn) \
  REFUSED(SetGlobalCustomCreateThreadFn) \
  REFUSED(SetGlobalCustomThreadCreationOptions) \
  REFUSED(SetGlobalCustomJoinThreadFn) \
  REFUSED(SynchronizeBoundInputs) \
  REFUSED(SynchronizeBoundOutputs) \
  /* 1.11 */ \
  REFUSED(SessionOptionsAppendExecutionProvider_CUDA_V2) \
  REFUSED(CreateCUDAProviderOptions) \
  REFUSED(UpdateCUDAProviderOptions) \
  REFUSED(GetCUDAProviderOptionsAsString) \
  IGNORED(ReleaseCUDAProviderOptions) \
  REFUSED(SessionOptionsAppendExecutionProvider_MIGraphX) \
  /* 1.12 */ \
  REFUSED(AddExternalInitializers) \
  SERVED(CreateOpAttr) \
  SERVED(ReleaseOpAttr) \
  SERVED(CreateOp) \
  SERVED(InvokeOp) \
  SERVED(ReleaseOp) \
  REFUSED(SessionOptionsAppendExecutionProvider) \
  SERVED(CopyKernelInfo) \
  SERVED(ReleaseKernelInfo) \
  /* 1.13 */ \
  NOTHING(GetTrainingApi) \
  REFUSED(SessionOptionsAppendExecutionProvider_CANN) \
  REFUSED(CreateCANNProviderOptions) \
  REFUSED(UpdateCANNProviderOptions) \
  REFUSED(GetCANNProviderOptionsAsString) \
  IGNORED(ReleaseCANNProviderOptions) \
  /* 1.14 */ \
  SERVED(MemoryInfoGetDeviceType) \
  REFUSED(UpdateEnvWithCustomLogLevel) \
  REFUSED(SetGlobalIntraOpThreadAffinity) \
  REFUSED(RegisterCustomOpsLibrary_V2) \
  REFUSED(RegisterCustomOpsUsingFunction) \
  SERVED(KernelInfo_GetInputCount) \
  SERVED(KernelInfo_GetOutputCount) \
  SERVED(KernelInfo_GetInputName) \
  SERVED(KernelInfo_GetOutputName) \
  SERVED(KernelInfo_GetInputTypeInfo) \
  SERVED(KernelInfo_GetOutputTypeInfo) \
  SERVED(KernelInfoGetAttribute_tensor) \
  SERVED(HasSessionConfigEntry) \
  SERVED(GetSessionConfigEntry) \
  /* 1.15 */ \
  REFUSED(SessionOptionsAppendExecutionProvider_Dnnl) \
  REFUSED(CreateDnnlProviderOptions) \
  REFUSED(UpdateDnnlProviderOptions) \
  REFUSED(GetDnnlProviderOptionsAsString) \
  IGNORED(ReleaseDnnlProviderOptions) \
  SERVED(KernelInfo_GetNodeName) \
  SERVED(KernelInfo_GetLogger) \
  SERVED(KernelContext_GetLogger) \
  SERVED(Logger_LogMessage) \
  SERVED(Logger_GetLoggingSeverityLevel) \
  SERVED(KernelInfoGetConstantInput_tensor) \
  SERVED(CastTypeInfoToOptionalTypeInfo) \
  REFUSED(GetOptionalContainedTypeInfo) \
  SERVED(GetResizedStringTensorElementBuffer) \
  SERVED(KernelContext_GetAllocator) \
  NOTHING(GetBuildInfoString) \
  /* 1.16 */ \
  REFUSED(CreateROCMProviderOptions) \
  REFUSED(UpdateROCMProviderOptions) \
  REFUSED(GetROCMProviderOptionsAsString) \
  IGNORED(ReleaseROCMProviderOptions) \
  REFUSED(CreateAndRegisterAllocatorV2) \
  REFUSED(RunAsync) \
  REFUSED(UpdateTensorRTProviderOptionsWithValue) \
  REFUSED(GetTensorRTProviderOptionsByName) \
  REFUSED(UpdateCUDAProviderOptionsWithValue) \
  REFUSED(GetCUDAProviderOptionsByName) \
  SERVED(KernelContext_GetResource) \
  /* 1.17 */ \
  REFUSED(SetUserLoggingFunction) \
  SERVED(ShapeInferContext_GetInputCount) \
  SERVED(ShapeInferContext_GetInputTypeShape) \
  SERVED(ShapeInferContext_GetAttribute) \
  SERVED(ShapeInferContext_SetOutputTypeShape) \
  SERVED(SetSymbolicDimensions) \
  SERVED(ReadOpAttr) \
  REFUSED(SetDeterministicCompute) \
  SERVED(KernelContext_ParallelFor) \
  REFUSED(SessionOptionsAppendExecutionProvider_OpenVINO_V2) \
  /* 1.18 */ \
  REFUSED(SessionOptionsAppendExecutionProvider_VitisAI) \
  SERVED(KernelContext_GetScratchBuffer) \
  SERVED(KernelInfoGetAllocator) \
  REFUSED(AddExternalInitializersFromFilesInMemory) \
  /* 1.20 */ \
  REFUSED(CreateLoraAdapter) \
  REFUSED(CreateLoraAdapterFromArray) \
  IGNORED(ReleaseLoraAdapter) \
  REFUSED(RunOptionsAddActiveLoraAdapter) \
  REFUSED(SetEpDynamicOptions) \
  /* 1.22 */ \
  IGNORED(ReleaseValueInfo) \
  IGNORED(ReleaseNode) \
  IGNORED(ReleaseGraph) \
  IGNORED(ReleaseModel) \
  REFUSED(GetValueInfoName) \
  REFUSED(GetValueInfoTypeInfo) \
  NOTHING(GetModelEditorApi) \
  SERVED(CreateTensorWithDataAndDeleterAsOrtValue) \
  REFUSED(SessionOptionsSetLoadCancellationFlag) \
  NOTHING(GetCompileApi) \
  SERVED(CreateKeyValuePairs) \
  SERVED(AddKeyValuePair) \
  SERVED(GetKeyValue) \
  SERVED(GetKeyValuePairs) \
  SERVED(RemoveKeyValuePair) \
  SERVED(ReleaseKeyValuePairs) \
  REFUSED(RegisterExecutionProviderLibrary) \
  REFUSED(UnregisterExecutionProviderLibrary) \
  REFUSED(GetEpDevices) \
  REFUSED(SessionOptionsAppendExecutionProvider_V2) \
  REFUSED(SessionOptionsSetEpSelectionPolicy) \
  REFUSED(SessionOptionsSetEpSelectionPolicyDelegate) \
  NOTHING(HardwareDevice_Type) \
  NOTHING(HardwareDevice_VendorId) \
  NOTHING(HardwareDevice_Vendor) \
  NOTHING(HardwareDevice_DeviceId) \
  NOTHING(HardwareDevice_Metadata) \
  NOTHING(EpDevice_EpName) \
  NOTHING(EpDevice_EpVendor) \
  NOTHING(EpDevice_EpMetadata) \
  NOTHING(EpDevice_EpOptions) \
  NOTHING(EpDevice_Device) \
  NOTHING(GetEpApi) \
  /* 1.23 */ \
  SERVED(GetTensorSizeInBytes) \
  REFUSED(AllocatorGetStats) \
  REFUSED(CreateMemoryInfo_V2) \
  NOTHING(MemoryInfoGetDeviceMemType) \
  NOTHING(MemoryInfoGetVendorId) \
  REFUSED(ValueInfo_GetValueProducer) \
  REFUSED(ValueInfo_GetValueNumConsumers) \
  REFUSED(ValueInfo_GetValueConsumers) \
  REFUSED(ValueInfo_GetInitializerValue) \
  REFUSED(ValueInfo_GetExternalInitializerInfo) \
  REFUSED(ValueInfo_IsRequiredGraphInput) \
  REFUSED(ValueInfo_IsOptionalGraphInput) \
  REFUSED(ValueInfo_IsGraphOutput) \
  REFUSED(ValueInfo_IsConstantInitializer) \
  REFUSED(ValueInfo_IsFromOuterScope) \
  REFUSED(Graph_GetName) \
  REFUSED(Graph_GetModelPath) \
  REFUSED(Graph_GetOnnxIRVersion) \
  REFUSED(Graph_GetNumOperatorSets) \
  REFUSED(Graph_GetOperatorSets) \
  REFUSED(Graph_GetNumInputs) \
  REFUSED(Graph_GetInputs) \
  REFUSED(Graph_GetNumOutputs) \
  REFUSED(Graph_GetOutputs) \
  REFUSED(Graph_GetNumInitializers) \
  REFUSED(Graph_GetInitializers) \
  REFUSED(Graph_GetNumNodes) \
  REFUSED(Graph_GetNodes) \
  REFUSED(Graph_GetParentNode) \
  REFUSED(Graph_GetGraphView) \
  REFUSED(Node_GetId) \
  REFUSED(Node_GetName) \
  REFUSED(Node_GetOperatorType) \
  REFUSED(Node_GetDomain) \
  REFUSED(Node_GetSinceVersion) \
  REFUSED(Node_GetNumInputs) \
  REFUSED(Node_GetInputs) \
  REFUSED(Node_GetNumOutputs) \
  REFUSED(Node_GetOutputs) \
  REFUSED(Node_GetNumImplicitInputs) \
  REFUSED(Node_GetImplicitInputs) \
  REFUSED(Node_GetNumAttributes) \
  REFUSED(Node_GetAttributes) \
  REFUSED(Node_GetAttributeByName) \
  REFUSED(OpAttr_GetTensorAttributeAsOrtValue) \
  SERVED(OpAttr_GetType) \
  SERVED(OpAttr_GetName) \
  REFUSED(Node_GetNumSubgraphs) \
  REFUSED(Node_GetSubgraphs) \
  REFUSED(Node_GetGraph) \
  REFUSED(Node_GetEpName) \
  IGNORED(ReleaseExternalInitializerInfo) \
  NOTHING(ExternalInitializerInfo_GetFilePath) \
  NOTHING(ExternalInitializerInfo_GetFileOffset) \
  NOTHING(ExternalInitializerInfo_GetByteSize) \
  NOTHING(GetRunConfigEntry) \
  NOTHING(EpDevice_MemoryInfo) \
  REFUSED(CreateSharedAllocator) \
  REFUSED(GetSharedAllocator) \
  REFUSED(ReleaseSharedAllocator) \
  SERVED(GetTensorData) \
  SERVED(GetSessionOptionsConfigEntries) \
  REFUSED(SessionGetMemoryInfoForInputs) \
  REFUSED(SessionGetMemoryInfoForOutputs) \
  REFUSED(SessionGetEpDeviceForInputs) \
  REFUSED(CreateSyncStreamForEpDevice) \
  NOTHING(SyncStream_GetHandle) \
  IGNORED(ReleaseSyncStream) \
  REFUSED(CopyTensors) \
  REFUSED(Graph_GetModelMetadata) \
  REFUSED(GetModelCompatibilityForEpDevices) \
  REFUSED(CreateExternalInitializerInfo) \
  /* 1.24 */ \
  SERVED(TensorTypeAndShape_HasShape) \
  SERVED(KernelInfo_GetConfigEntries) \
  SERVED(KernelInfo_GetOperatorDomain) \
  SERVED(KernelInfo_GetOperatorType) \
  SERVED(KernelInfo_GetOperatorSinceVersion) \
  NOTHING(GetInteropApi) \
  REFUSED(SessionGetEpDeviceForOutputs) \
  REFUSED(GetNumHardwareDevices) \
  REFUSED(GetHardwareDevices) \
  REFUSED(GetHardwareDeviceEpIncompatibilityDetails) \
  REFUSED(DeviceEpIncompatibilityDetails_GetReasonsBitmask) \
  REFUSED(DeviceEpIncompatibilityDetails_GetNotes) \
  REFUSED(DeviceEpIncompatibilityDetails_GetErrorCode) \
  IGNORED(ReleaseDeviceEpIncompatibilityDetails) \
  REFUSED(GetCompatibilityInfoFromModel) \
  REFUSED(GetCompatibilityInfoFromModelBytes) \
  REFUSED(CreateEnvWithOptions) \
  REFUSED(Session_GetEpGraphAssignmentInfo) \
  REFUSED(EpAssignedSubgraph_GetEpName) \
  REFUSED(EpAssignedSubgraph_GetNodes) \
  REFUSED(EpAssignedNode_GetName) \
  REFUSED(EpAssignedNode_GetDomain) \
  REFUSED(EpAssignedNode_GetOperatorType) \
  IGNORED(RunOptionsSetSyncStream) \
  SERVED(GetTensorElementTypeAndShapeDataReference) \
  /* 1.25 */ \
  REFUSED(RunOptionsEnableProfiling) \
  REFUSED(RunOptionsDisableProfiling) \
  SERVED(KernelInfoGetAttributeArray_string) \
  REFUSED(SetPerSessionThreadPoolCallbacks) \
  /* 1.27 */ \
  REFUSED(GetMemPatternEnabled) \
  REFUSED(GetSessionExecutionMode) \
  REFUSED(SessionReleaseCapturedGraph) \
  /* 1.28 */ \
  NOTHING(GetExperimentalFunction) \
  SERVED(KernelContext_GetSyncStream) \
  /* 1.29 */ \
  REFUSED(SessionOptionsSetWeightlessSourceModelBuffer)
/* clang-format on */

/* The place of each function in the table: ORT_AT_CreateStatus and so on. */
#define ORT_PLACE_(name) ORT_AT_##name,
enum { ORT_FUNCTIONS(ORT_PLACE_, ORT_PLACE_, ORT_PLACE_, ORT_PLACE_) ORT_FUNCTION_COUNT };

_Static_assert(ORT_FUNCTION_COUNT == 425, "the table is that of version 1.31");

#endif
