/* The functions of the table of PJRT 0.105, in the order of the table.
 *
 * READY(name, function, structure, last): `function` implements it. The caller's structure must
 * reach to the end of the field `last`, the last one that `function` reads or writes; what newer
 * callers append is not looked at.
 * MISSING(name): calls fail with an error that names the function. */
#ifndef BRIDGES_PJRT_FUNCTIONS_H
#define BRIDGES_PJRT_FUNCTIONS_H

/* clang-format off */
#define PJRT_FUNCTIONS(READY, MISSING)                                                             \
  READY(Error_Destroy, error_destroy, pjrt_object_t, object)                                       \
  READY(Error_Message, error_message, pjrt_list_t, count)                                          \
  READY(Error_GetCode, error_code, pjrt_number_t, number)                                          \
  READY(Plugin_Initialize, plugin_initialize, pjrt_arguments_t, extension)                         \
  READY(Plugin_Attributes, plugin_attributes, pjrt_plugin_t, count)                                \
  READY(Event_Destroy, event_destroy, pjrt_object_t, object)                                       \
  READY(Event_IsReady, event_is_ready, pjrt_flag_t, flag)                                          \
  READY(Event_Error, event_error, pjrt_object_t, object)                                           \
  READY(Event_Await, event_error, pjrt_object_t, object)                                           \
  READY(Event_OnReady, event_on_ready, pjrt_ready_t, state)                                        \
  READY(Client_Create, client_create, pjrt_create_t, client)                                       \
  READY(Client_Destroy, client_destroy, pjrt_object_t, object)                                     \
  READY(Client_PlatformName, client_platform_name, pjrt_list_t, count)                             \
  READY(Client_ProcessIndex, always_zero, pjrt_number_t, number)                                   \
  READY(Client_PlatformVersion, client_platform_version, pjrt_list_t, count)                       \
  READY(Client_Devices, client_devices, pjrt_list_t, count)                                        \
  READY(Client_AddressableDevices, client_devices, pjrt_list_t, count)                             \
  READY(Client_LookupDevice, client_lookup, pjrt_lookup_t, device)                                 \
  READY(Client_LookupAddressableDevice, client_lookup, pjrt_lookup_t, device)                      \
  READY(Client_AddressableMemories, client_memories, pjrt_list_t, count)                           \
  READY(Client_Compile, client_compile, pjrt_compile_t, executable)                                \
  READY(Client_DefaultDeviceAssignment, client_assignment, pjrt_assignment_t, devices)             \
  READY(Client_BufferFromHostBuffer, buffer_from_host, pjrt_from_host_t, buffer)                   \
  READY(DeviceDescription_Id, device_id, pjrt_number_t, number)                                    \
  READY(DeviceDescription_ProcessIndex, always_zero, pjrt_number_t, number)                        \
  READY(DeviceDescription_Attributes, device_description, pjrt_counted_t, items)                   \
  READY(DeviceDescription_Kind, device_kind, pjrt_list_t, count)                                   \
  READY(DeviceDescription_DebugString, device_text, pjrt_list_t, count)                            \
  READY(DeviceDescription_ToString, device_text, pjrt_list_t, count)                               \
  READY(Device_GetDescription, device_itself, pjrt_result_t, result)                               \
  READY(Device_IsAddressable, always_true, pjrt_flag_t, flag)                                      \
  READY(Device_LocalHardwareId, device_id, pjrt_number_t, number)                                  \
  READY(Device_AddressableMemories, device_memories, pjrt_list_t, count)                           \
  READY(Device_DefaultMemory, device_memory, pjrt_result_t, result)                                \
  READY(Device_MemoryStats, device_memory_stats, pjrt_memory_stats_t, bytes_limit)                 \
  READY(Memory_Id, memory_id, pjrt_number_t, number)                                               \
  READY(Memory_Kind, memory_kind, pjrt_list_t, count)                                              \
  READY(Memory_DebugString, memory_text, pjrt_list_t, count)                                       \
  READY(Memory_ToString, memory_text, pjrt_list_t, count)                                          \
  READY(Memory_AddressableByDevices, memory_devices, pjrt_list_t, count)                           \
  READY(Executable_Destroy, executable_destroy, pjrt_object_t, object)                             \
  READY(Executable_Name, executable_name, pjrt_list_t, count)                                      \
  READY(Executable_NumReplicas, always_one, pjrt_count_t, count)                                   \
  READY(Executable_NumPartitions, always_one, pjrt_count_t, count)                                 \
  READY(Executable_NumOutputs, executable_outputs, pjrt_count_t, count)                            \
  READY(Executable_SizeOfGeneratedCodeInBytes, always_none, pjrt_count_t, count)                   \
  READY(Executable_GetCostAnalysis, executable_costs, pjrt_counted_t, items)                       \
  READY(Executable_OutputMemoryKinds, executable_output_kinds, pjrt_lists_t, sizes)                \
  MISSING(Executable_OptimizedProgram)                                                             \
  MISSING(Executable_Serialize)                                                                    \
  READY(LoadedExecutable_Destroy, executable_destroy, pjrt_object_t, object)                       \
  READY(LoadedExecutable_GetExecutable, executable_share, pjrt_result_t, result)                   \
  READY(LoadedExecutable_AddressableDevices, executable_devices, pjrt_list_t, count)               \
  READY(LoadedExecutable_Delete, executable_delete, pjrt_object_t, object)                         \
  READY(LoadedExecutable_IsDeleted, executable_is_deleted, pjrt_flag_t, flag)                      \
  READY(LoadedExecutable_Execute, executable_execute, pjrt_execute_t, device)                      \
  MISSING(Executable_DeserializeAndLoad)                                                           \
  READY(LoadedExecutable_Fingerprint, executable_fingerprint, pjrt_list_t, count)                  \
  READY(Buffer_Destroy, buffer_destroy, pjrt_object_t, object)                                     \
  READY(Buffer_ElementType, buffer_type, pjrt_number_t, number)                                    \
  READY(Buffer_Dimensions, buffer_dims, pjrt_list_t, count)                                        \
  READY(Buffer_UnpaddedDimensions, buffer_dims, pjrt_list_t, count)                                \
  READY(Buffer_DynamicDimensionIndices, always_empty, pjrt_list_t, count)                          \
  READY(Buffer_GetMemoryLayout, buffer_layout, pjrt_buffer_layout_t, layout)                       \
  READY(Buffer_OnDeviceSizeInBytes, buffer_size, pjrt_count_t, count)                              \
  READY(Buffer_Device, buffer_device, pjrt_result_t, result)                                       \
  READY(Buffer_Memory, buffer_memory, pjrt_result_t, result)                                       \
  READY(Buffer_Delete, buffer_delete, pjrt_object_t, object)                                       \
  READY(Buffer_IsDeleted, buffer_is_deleted, pjrt_flag_t, flag)                                    \
  READY(Buffer_CopyToDevice, buffer_copy_to_device, pjrt_copy_t, result)                           \
  READY(Buffer_ToHostBuffer, buffer_to_host, pjrt_to_host_t, event)                                \
  READY(Buffer_IsOnCpu, buffer_is_on_cpu, pjrt_flag_t, flag)                                       \
  READY(Buffer_ReadyEvent, buffer_ready, pjrt_result_t, result)                                    \
  READY(Buffer_UnsafePointer, buffer_pointer, pjrt_result_t, result)                               \
  READY(Buffer_IncreaseExternalReferenceCount, buffer_hold, pjrt_object_t, object)                 \
  READY(Buffer_DecreaseExternalReferenceCount, buffer_let_go, pjrt_object_t, object)               \
  READY(Buffer_OpaqueDeviceMemoryDataPointer, buffer_pointer, pjrt_result_t, result)               \
  MISSING(CopyToDeviceStream_Destroy)                                                              \
  MISSING(CopyToDeviceStream_AddChunk)                                                             \
  MISSING(CopyToDeviceStream_TotalBytes)                                                           \
  MISSING(CopyToDeviceStream_GranuleSize)                                                          \
  MISSING(CopyToDeviceStream_CurrentBytes)                                                         \
  MISSING(TopologyDescription_Create)                                                              \
  READY(TopologyDescription_Destroy, nothing_to_do, pjrt_object_t, object)                         \
  READY(TopologyDescription_PlatformName, client_platform_name, pjrt_list_t, count)                \
  READY(TopologyDescription_PlatformVersion, client_platform_version, pjrt_list_t, count)          \
  READY(TopologyDescription_GetDeviceDescriptions, client_devices, pjrt_list_t, count)             \
  MISSING(TopologyDescription_Serialize)                                                           \
  READY(TopologyDescription_Attributes, always_empty, pjrt_list_t, count)                          \
  MISSING(Compile)                                                                                 \
  READY(Executable_OutputElementTypes, executable_output_types, pjrt_list_t, count)                \
  READY(Executable_OutputDimensions, executable_output_dims, pjrt_lists_t, sizes)                  \
  READY(Buffer_CopyToMemory, buffer_copy_to_memory, pjrt_copy_t, result)                           \
  MISSING(Client_CreateViewOfDeviceBuffer)                                                         \
  READY(Executable_Fingerprint, executable_fingerprint, pjrt_list_t, count)                        \
  READY(Client_TopologyDescription, client_topology, pjrt_result_t, result)                        \
  READY(Executable_GetCompiledMemoryStats, executable_memory, pjrt_program_memory_t, outputs)      \
  READY(Memory_Kind_Id, always_zero, pjrt_number_t, number)                                        \
  MISSING(ExecuteContext_Create)                                                                   \
  MISSING(ExecuteContext_Destroy)                                                                  \
  READY(Buffer_CopyRawToHost, buffer_raw_to_host, pjrt_raw_t, event)                               \
  MISSING(AsyncHostToDeviceTransferManager_Destroy)                                                \
  MISSING(AsyncHostToDeviceTransferManager_TransferData)                                           \
  MISSING(Client_CreateBuffersForAsyncHostToDevice)                                                \
  MISSING(AsyncHostToDeviceTransferManager_RetrieveBuffer)                                         \
  MISSING(AsyncHostToDeviceTransferManager_Device)                                                 \
  MISSING(AsyncHostToDeviceTransferManager_BufferCount)                                            \
  MISSING(AsyncHostToDeviceTransferManager_BufferSize)                                             \
  MISSING(AsyncHostToDeviceTransferManager_SetBufferError)                                         \
  MISSING(AsyncHostToDeviceTransferManager_AddMetadata)                                            \
  MISSING(Client_DmaMap)                                                                           \
  MISSING(Client_DmaUnmap)                                                                         \
  MISSING(Client_CreateUninitializedBuffer)                                                        \
  MISSING(Client_UpdateGlobalProcessInfo)                                                          \
  MISSING(TopologyDescription_Deserialize)                                                         \
  MISSING(Client_CreateAliasBuffer)                                                                \
  MISSING(Client_FulfillAliasBuffer)                                                               \
  READY(LoadedExecutable_GetDeviceAssignment, executable_assignment, pjrt_bytes_t, release)        \
  MISSING(Client_CreateErrorBuffer)                                                                \
  MISSING(AsyncHostToDeviceTransferManager_TransferLiteral)                                        \
  MISSING(Buffer_CopyRawToHostFuture)                                                              \
  MISSING(Device_PoisonExecution)                                                                  \
  READY(Device_CreateAsyncTrackingEvent, device_tracking, pjrt_tracking_t, event)                  \
  READY(AsyncTrackingEvent_Destroy, nothing_to_do, pjrt_object_t, object)                          \
  READY(Executable_GetCompileOptions, executable_options, pjrt_bytes_t, release)                   \
  MISSING(Buffer_DonateWithControlDependency)                                                      \
  MISSING(Event_Create)                                                                            \
  MISSING(Event_Set)                                                                               \
  READY(Device_GetAttributes, device_attributes, pjrt_attributes_t, release)                       \
  MISSING(Client_Load)                                                                             \
  READY(LoadedExecutable_AddressableDeviceLogicalIds, executable_logical_ids, pjrt_list_t, count)  \
  MISSING(Buffer_Bitcast)                                                                          \
  READY(Error_ForEachPayload, nothing_to_do, pjrt_object_t, object)                                \
  READY(TopologyDescription_Fingerprint, topology_fingerprint, pjrt_count_t, count)                \
  READY(Executable_ParameterMemoryKinds, executable_input_kinds, pjrt_lists_t, sizes)              \
  MISSING(Buffer_CopyRawFromHost)
/* clang-format on */

#endif
