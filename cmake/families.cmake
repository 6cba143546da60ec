# Writes model/family_list.cc into the build tree: what src/model/families/ holds. The file qwen3moe.cc there
# defines qwen3moe_family().
file(GLOB FAMILY_FILES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/model/families/*.cc)
set(declarations "")
set(calls "")
foreach(path IN LISTS FAMILY_FILES)
  cmake_path(GET path STEM family)
  if(NOT family MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "${path}: is not named like a family, such as qwen3moe.cc for qwen3moe_family()")
  endif()
  string(APPEND declarations "Family ${family}_family();\n")
  string(APPEND calls "          ${family}_family(),\n")
endforeach()
set(SOLI_FAMILY_LIST ${CMAKE_CURRENT_BINARY_DIR}/generated/model/family_list.cc)
file(
  CONFIGURE OUTPUT ${SOLI_FAMILY_LIST}
  CONTENT
    "// Written by cmake/families.cmake.\n#include \"model/family.h\"\n\nnamespace soli {\n\n@declarations@\nstd::vector<Family> make_families() {\n  return {\n@calls@  };\n}\n\n}  // namespace soli\n"
  @ONLY)
target_sources(soli_lib PRIVATE ${SOLI_FAMILY_LIST})
