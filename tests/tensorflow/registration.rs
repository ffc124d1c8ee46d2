//! A C program registers the profiler with structs that are larger and smaller than known.

use std::process::Command;

use whole_plugin::built::{plugin, root};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

#[test]
fn structs_of_other_sizes_are_not_written_beyond() {
    let scratch = Scratch::new();
    let host = scratch.path().join("host");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-o"]).arg(&host);
    let _built = run(compiler.arg(root().join("tests/tensorflow/host.c")).arg("-ldl")).with_code(0);
    let ended = run(scratch.command(&host).arg(plugin())).with_code(0);
    assert_eq!(ended.stderr, "", "nothing was recorded, which is no error");
    assert!(!scratch.out().exists(), "a profile makes no archive");
}
