# tenon_set_run_path(TARGET BUILD [FOLDER] [INSTALL FOLDER IN DESTINATION])
#
# Sets the folder in which a program or library looks for the libraries that it needs: in the build tree, and once it is
# installed in DESTINATION (call it after install(TARGETS)).  CMake itself ends the run path of a file that it will edit
# at installation with an empty part, and the system's loader takes an empty part as the current folder: code from there
# would run.  So the target is linked with a run path that CMake leaves alone, and that is filled up with `/` where the
# installed one is longer, because an edited run path must fit into the old one's bytes.
function(tenon_set_run_path target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BUILD;INSTALL;IN" "")
  set(path "${arg_BUILD}")
  string(LENGTH "${path}" size)
  string(LENGTH "${arg_INSTALL}" needed)
  if(size EQUAL 0 AND needed GREATER 0)
    set(path "$ORIGIN") # a folder that the file's owner controls in any case
    set(size 7)
  endif()
  if(size LESS needed)
    math(EXPR gap "${needed} - ${size}")
    string(REPEAT "/" ${gap} fill)
    string(APPEND path "${fill}")
  endif()
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${path}")
  if(NOT "${arg_INSTALL}" STREQUAL "" AND NOT "${path}" STREQUAL "${arg_INSTALL}")
    string(REPLACE "$" "\\$" old "${path}")
    string(REPLACE "$" "\\$" new "${arg_INSTALL}")
    if(IS_ABSOLUTE "${arg_IN}")
      set(folder "${arg_IN}")
    else()
      set(folder "\${CMAKE_INSTALL_PREFIX}/${arg_IN}")
    endif()
    install(CODE "file(RPATH_CHANGE FILE \"\$ENV{DESTDIR}${folder}/$<TARGET_FILE_NAME:${target}>\" OLD_RPATH \"${old}\" NEW_RPATH \"${new}\")")
  endif()
endfunction()
