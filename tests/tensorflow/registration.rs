//! A C program registers the profiler with structs that are larger and smaller than known.

use std::process::Command;

use whole_plugin::built::{plugin, root, tensorflow_library};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

fn host(scratch: &Scratch) -> Command {
    let host = scratch.path().join("host");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-o"]).arg(&host);
    let _built = run(compiler.arg(root().join("tests/tensorflow/host.c")).arg("-ldl")).with_code(0);
    let mut command = scratch.command(&host);
    command.arg(tensorflow_library());
    command
}

#[test]
fn structs_of_other_sizes_are_not_written_beyond() {
    let scratch = Scratch::new();
    // Without the plugin, and with one that records nothing.
    for preloaded in [None, Some(plugin())] {
        let mut command = host(&scratch);
        let ended = run(command.envs(preloaded.map(|plugin| ("LD_PRELOAD", plugin)))).with_code(0);
        assert_eq!(ended.stderr, "", "nothing was recorded, which is no error");
    }
    assert!(!scratch.out().exists(), "a profile makes no archive");
}

#[test]
fn a_plugin_of_another_version_is_named() {
    let scratch = Scratch::new();
    let other = scratch.path().join("other.so");
    let source = scratch.path().join("other.c");
    std::fs::write(&source, "int ncclProfiler_v1;\n").expect("written");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wl,-soname,libnccl-profiler-otf2.so", "-o"]).arg(&other);
    let _built = run(compiler.arg(source)).with_code(0);
    let ended = run(host(&scratch).env("LD_PRELOAD", other)).with_code(0);
    let line = "nccl-otf2: TensorFlow's profile lacks NCCL: the libnccl-profiler-otf2.so in this process is of another \
                version\n";
    assert!(ended.stderr.starts_with(line), "{ended}");
    assert_eq!(ended.stderr.replace(line, ""), "");
}

#[test]
fn the_library_is_pinned_and_exports_what_tensorflow_and_the_plugin_call() {
    let listed = run(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(tensorflow_library()));
    let listed = listed.with_code(0).stdout;
    let exported: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(exported, ["TF_InitProfiler", "nccl_otf2_session_ends_v1"]);
    let dynamic = run(Command::new("readelf").args(["-W", "-d"]).arg(tensorflow_library())).with_code(0).stdout;
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    assert!(dynamic.contains("Library soname: [libnccl-otf2-tensorflow.so]"), "{dynamic}");
}
