# oneDNN 3 with OpenMP, as `pip install onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0` puts it into .venv, or
# of the system.  Defines the target OneDNN::dnnl and OneDNN_VERSION.  OneDNN_ROOT names another place.
# Why this version: docs/decisions/0002-onednn.md.
string(REPLACE ":" ";" onednn_path "$ENV{PATH}") # pip builds wheels in an environment of its own, whose bin is on it
list(TRANSFORM onednn_path REPLACE "/bin/?$" "")
set(onednn_hints ${OneDNN_ROOT} $ENV{OneDNN_ROOT} ${CMAKE_SOURCE_DIR}/.venv $ENV{VIRTUAL_ENV}
                 ${onednn_path})
find_path(OneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h HINTS ${onednn_hints} PATH_SUFFIXES include)
find_library(OneDNN_LIBRARY NAMES libdnnl.so.3 dnnl HINTS ${onednn_hints} PATH_SUFFIXES lib lib64)

if(OneDNN_INCLUDE_DIR)
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS ${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h line REGEX "define DNNL_VERSION_${part} ")
    string(REGEX MATCH "[0-9]+" onednn_${part} "${line}")
  endforeach()
  set(OneDNN_VERSION ${onednn_MAJOR}.${onednn_MINOR}.${onednn_PATCH})
  if(OneDNN_VERSION VERSION_LESS 3) # another C interface
    message(STATUS "oneDNN ${OneDNN_VERSION} in ${OneDNN_INCLUDE_DIR} is not used: 3.0 or later is needed")
    unset(OneDNN_INCLUDE_DIR CACHE)
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OneDNN REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR VERSION_VAR OneDNN_VERSION)

if(OneDNN_FOUND AND NOT TARGET OneDNN::dnnl)
  add_library(OneDNN::dnnl UNKNOWN IMPORTED)
  set_target_properties(OneDNN::dnnl PROPERTIES IMPORTED_LOCATION ${OneDNN_LIBRARY} INTERFACE_LINK_LIBRARIES gomp
                        INTERFACE_INCLUDE_DIRECTORIES ${OneDNN_INCLUDE_DIR})
endif()
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)
