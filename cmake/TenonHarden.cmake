# tenon_harden(TARGET)
#
# Compiles and links what is shipped so that an overwritten stack, an overlong copy of libc's functions, or an overwritten
# table of addresses ends the process instead of running somebody's code.  Kernels (ops/, devices/) and the call path have no
# guard of the stack: CMakeLists.txt says why.  A sanitizer finds more and needs
# libc's functions as they are.
function(tenon_harden target)
  if(TENON_SANITIZE OR NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    return()
  endif()
  target_compile_options(${target} PRIVATE -fstack-protector-strong
                         $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE> # a distribution's own setting
                         $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=2>)
  get_target_property(kind ${target} TYPE)
  if(NOT kind STREQUAL "OBJECT_LIBRARY")
    target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now)
  endif()
endfunction()
