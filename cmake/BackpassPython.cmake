# SPDX-License-Identifier: Apache-2.0
# What the Python package carries: the library and, beside it, those that it needs. scikit-build-core installs this
# component, "python", into the wheel; an ordinary installation leaves it out. A wheel has no symbolic links, so each
# library is one file, under the name that is asked for.
function(backpass_install_for_python target name)
  install(PROGRAMS $<TARGET_FILE:${target}> DESTINATION backpass RENAME ${name} COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

backpass_install_for_python(backpass libbackpass.so)
foreach(needed IN ITEMS hwy::hwy TBB::tbb)
  get_target_property(type ${needed} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    backpass_install_for_python(${needed} $<TARGET_SONAME_FILE_NAME:${needed}>)
  endif()
endforeach()
# The loader looks beside the library first, then where the linker found what lies in no system folder. Files are installed
# as they were built, so it is built so.
set_target_properties(backpass PROPERTIES INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
