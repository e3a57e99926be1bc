# Compiler and linker flags that hold for the whole project.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# Fused multiply-adds only where the code says so: results must not depend on the compiler's mood.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off>)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Wold-style-cast;-Wcast-qual;-Wundef>")
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety;-Wno-unused-command-line-argument>")
else()
  # GCC 12 reports these falsely on std::optional, std::variant and inlined string code.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized;-Wno-restrict;-Wno-psabi>")
endif()
if(PENSTOCK_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(PENSTOCK_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(PENSTOCK_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
  add_compile_options("$<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>")
elseif(PENSTOCK_SANITIZE)
  message(FATAL_ERROR "PENSTOCK_SANITIZE is '${PENSTOCK_SANITIZE}'; use address, thread or nothing")
endif()
