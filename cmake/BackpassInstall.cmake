# SPDX-License-Identifier: Apache-2.0
# What is installed of the library. Nothing of it names the folders of the source, the build or the installation, so the
# installed tree can be moved. (The command line's rule stands in tools/.)
include(CMakePackageConfigHelpers)

# What a static library leaves to its user, as the linker names it: C does not link the libraries of C++ by itself.
function(backpass_private_libs result)
  set(libs -lhwy -ltbb)
  if(BACKPASS_HAS_CUDA)
    list(APPEND libs -lcudart_static -ldl -lrt -lpthread)
  endif()
  foreach(name IN LISTS CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
    if(name MATCHES "^(stdc\\+\\+|c\\+\\+.*|m)$")
      list(APPEND libs -l${name})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES libs)
  list(JOIN libs " " libs)
  set(${result} ${libs} PARENT_SCOPE)
endfunction()

# A folder of the installation as a .pc file names it.
function(backpass_pc_folder result folder)
  if(IS_ABSOLUTE ${folder})
    set(${result} ${folder} PARENT_SCOPE)
  else()
    set(${result} "\${prefix}/${folder}" PARENT_SCOPE)
  endif()
endfunction()

function(backpass_configure_pc)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
  else()
    file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    set(pc_prefix "\${pcfiledir}/${up}")
    string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
  endif()
  backpass_pc_folder(pc_libdir ${CMAKE_INSTALL_LIBDIR})
  backpass_pc_folder(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
  set(pc_extra "")
  if(NOT BUILD_SHARED_LIBS)
    # Not Requires.private: that would give the definitions of Highway and TBB to everyone who asks for --cflags.
    backpass_private_libs(libs)
    set(pc_cflags " -DBP_STATIC")
    set(pc_extra "Libs.private: ${libs}\n")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/backpass.pc.in backpass.pc @ONLY)
endfunction()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/backpass)
install(TARGETS backpass EXPORT backpassTargets
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/backpass DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT backpassTargets NAMESPACE backpass:: DESTINATION ${package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/backpassConfig.cmake.in backpassConfig.cmake
                              INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change anything.
write_basic_package_version_file(backpassConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/backpassConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/backpassConfigVersion.cmake
        DESTINATION ${package_dir})

backpass_configure_pc()
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/backpass.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/backpass)
