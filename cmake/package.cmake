# `cmake --install` and `cpack`: the binary and its documents, as .tgz and .deb.
include(GNUInstallDirs)
install(TARGETS soli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# Made from the binary itself when installing, so they know its options.
foreach(shell_and_file "bash;share/bash-completion/completions/soli" "zsh;share/zsh/site-functions/_soli"
                       "fish;share/fish/vendor_completions.d/soli.fish")
  list(GET shell_and_file 0 shell)
  list(GET shell_and_file 1 file)
  set(script ${PROJECT_BINARY_DIR}/completions/${file})
  cmake_path(GET file PARENT_PATH folder)
  install(CODE "file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/completions/${folder})
                execute_process(COMMAND ${PROJECT_BINARY_DIR}/src/soli completion ${shell}
                                OUTPUT_FILE ${script} COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${script} DESTINATION ${folder})
endforeach()
install(FILES LICENSE README.md docs/api.md docs/scheduling.md docs/serving.md docs/steering.md docs/tracing.md packaging/serve.toml DESTINATION ${CMAKE_INSTALL_DOCDIR})
# A unit is found in lib/, also where libraries lie elsewhere.
install(FILES packaging/soli.service DESTINATION lib/systemd/system)

# Manual pages, of the program and of the server, where help2man is installed. It runs a program by one name.
find_program(SOLI_HELP2MAN help2man)
if(SOLI_HELP2MAN)
  foreach(page_and_command "soli;soli" "soli-serve;soli serve")
    list(GET page_and_command 0 page)
    list(GET page_and_command 1 command)
    string(REPLACE "soli" "${PROJECT_BINARY_DIR}/src/soli" command "${command}")
    set(wrapper ${PROJECT_BINARY_DIR}/man/${page})
    install(CODE "file(WRITE ${wrapper} \"#!/bin/sh\\nexec ${command} \\\"\\$@\\\"\\n\")
                  file(CHMOD ${wrapper} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
                  execute_process(COMMAND ${SOLI_HELP2MAN} --no-info --version-string=${PROJECT_VERSION}
                                          --output=${wrapper}.1 \"--name=Mixture-of-Experts language models\" ${wrapper}
                                  COMMAND_ERROR_IS_FATAL ANY)")
    install(FILES ${wrapper}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  endforeach()
endif()

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME soli)
set(CPACK_PACKAGE_CONTACT "the soli developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Runs and shows Mixture-of-Experts language models on CPU, RAM and NVMe")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
