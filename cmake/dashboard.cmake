# Puts the page of the dashboard, which web/ builds, into the library.
set(page ${PROJECT_SOURCE_DIR}/web/dist/index.html)
set(SOLI_PAGE_DATA ${CMAKE_CURRENT_BINARY_DIR}/generated/serve/dashboard/page_data.cc)
set(embed ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake)
add_custom_command(
  OUTPUT ${SOLI_PAGE_DATA}
  COMMAND ${CMAKE_COMMAND} -DINPUT=${page} -DOUTPUT=${SOLI_PAGE_DATA} -P ${embed}
  DEPENDS ${page} ${embed}
  COMMENT "Embedding ${page}"
  VERBATIM)
target_sources(soli_lib PRIVATE ${SOLI_PAGE_DATA})
