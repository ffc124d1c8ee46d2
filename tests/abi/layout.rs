//! wrapper.h, as a C and a C++ compiler see it, against the facts that the Rust bindings are asserted with.

use std::collections::BTreeSet;
use std::process::Command;

use recorder::abi::layout::FACTS;

use super::{compiler, root, text};

#[test]
fn c_sees_the_same_layout_as_rust() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("abi_layout");
    let mut compiler = compiler(&["-std=c11", "-pedantic"]);
    let _silent = text(compiler.arg("-o").arg(&program).arg(root().join("tests/abi/layout.c")));
    let printed = text(&mut Command::new(&program));

    let c: BTreeSet<String> = printed.lines().map(str::to_owned).collect();
    let rust: BTreeSet<String> = FACTS
        .iter()
        .flat_map(|facts| facts.iter())
        .map(|fact| {
            let field = match fact.field {
                "" => "-",
                "type_" => "type",
                field => field,
            };
            format!("{} {field} {} {}", fact.structure, fact.offset, fact.size)
        })
        .collect();
    let only_c: Vec<_> = c.difference(&rust).collect();
    let only_rust: Vec<_> = rust.difference(&c).collect();
    assert!(only_c.is_empty() && only_rust.is_empty(), "only C: {only_c:#?}\nonly the facts: {only_rust:#?}");
    // Seven descriptors, arguments and tables, and the data of two net plugins.
    assert_eq!(FACTS.len(), 7 * 3 + 2);
}

#[test]
fn the_header_is_clean_c_and_cpp() {
    for arguments in [["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++11"], ["-x", "c++", "-std=c++20"]] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let source = directory.path().join("include.c");
        std::fs::write(&source, "#include \"wrapper.h\"\n#include \"wrapper.h\"\n").expect("write");
        let _silent = text(compiler(&arguments).args(["-pedantic", "-fsyntax-only"]).arg(&source));
    }
}
