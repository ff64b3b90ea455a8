# find_package (circulant) gives the targets circulant::circulant (shared), circulant::static, and the variable circulant_FORTRAN_MODULE,
# a source file to be compiled with the program, as modules differ between compilers.
# It stands in lib/cmake/circulant (capi/install) or share/circulant/cmake (cargo cinstall) of the prefix.
get_filename_component (_circulant_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
foreach (_circulant_folder lib "lib/${CMAKE_LIBRARY_ARCHITECTURE}" lib64)
  if (EXISTS "${_circulant_prefix}/${_circulant_folder}/libcirculant.so.0")
    set (_circulant_lib "${_circulant_prefix}/${_circulant_folder}")
    break ()
  endif ()
endforeach ()
if (NOT _circulant_lib)
  set (circulant_FOUND FALSE)
  set (circulant_NOT_FOUND_MESSAGE "libcirculant.so.0 is not in ${_circulant_prefix}")
  return ()
endif ()
if (NOT TARGET circulant::circulant)
  add_library (circulant::circulant SHARED IMPORTED)
  set_target_properties (circulant::circulant PROPERTIES
    IMPORTED_LOCATION "${_circulant_lib}/libcirculant.so.0"
    IMPORTED_SONAME libcirculant.so.0
    INTERFACE_INCLUDE_DIRECTORIES "${_circulant_prefix}/include")
  add_library (circulant::static STATIC IMPORTED)
  set_target_properties (circulant::static PROPERTIES
    IMPORTED_LOCATION "${_circulant_lib}/libcirculant.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES C
    INTERFACE_LINK_LIBRARIES "gcc_s;util;rt;pthread;m;dl"
    INTERFACE_INCLUDE_DIRECTORIES "${_circulant_prefix}/include")
endif ()
set (circulant_FORTRAN_MODULE "${_circulant_prefix}/include/circulant.f90")
unset (_circulant_folder)
unset (_circulant_lib)
unset (_circulant_prefix)
