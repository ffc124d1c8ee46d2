//! wrapper.h, as C and C++ compilers see it.

use super::{compiler, text};

#[test]
fn the_header_is_clean_c_and_cpp() {
    for arguments in [["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++11"], ["-x", "c++", "-std=c++20"]] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let source = directory.path().join("include.c");
        std::fs::write(&source, "#include \"wrapper.h\"\n#include \"wrapper.h\"\n").expect("write");
        let _silent = text(compiler(&arguments).args(["-pedantic", "-fsyntax-only"]).arg(&source));
    }
}
