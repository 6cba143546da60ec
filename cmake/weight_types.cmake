# Writes kernels/quant/weight_types-inl.h into the build tree: what src/kernels/quant/types/ holds. The file
# q4_k-inl.h there is the weight type Q4_K.
file(GLOB WEIGHT_TYPE_FILES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/quant/types/*.h)
set(includes "")
set(types "")
foreach(path IN LISTS WEIGHT_TYPE_FILES)
  cmake_path(GET path FILENAME file)
  if(NOT file MATCHES "^([a-z][a-z0-9_]*)-inl\\.h$")
    message(FATAL_ERROR "${path}: is not named like a weight type, such as q4_k-inl.h for Q4_K")
  endif()
  string(TOUPPER "${CMAKE_MATCH_1}" type)
  string(APPEND includes "#include \"kernels/quant/types/${file}\"\n")
  string(APPEND types " \\\n  TYPE(${type}, \"${file}\")")
endforeach()

# Only written when it changes, so that configuring again rebuilds nothing.
set(SOLI_GENERATED ${CMAKE_CURRENT_BINARY_DIR}/generated)
file(CONFIGURE OUTPUT ${SOLI_GENERATED}/kernels/quant/weight_types-inl.h @ONLY CONTENT
"// Made by cmake/weight_types.cmake from the names of the files in src/kernels/quant/types/.
@includes@
#define SOLI_WEIGHT_TYPES(TYPE)@types@
")
