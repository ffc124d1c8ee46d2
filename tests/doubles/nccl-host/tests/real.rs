//! How runs of real NCCL on the GPU stand-in end. `cargo xtask test` fetches NCCL and builds what the tests use. That
//! the log has what NCCL did is held against archives by `cargo xtask matrix`.

use whole_plugin::built;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

#[test]
fn a_wrong_result_is_seen() {
    let scratch = Scratch::new();
    let Some(mut job) = scratch.nccl("2.32.3", &["--ops", "allreduce", "--log", "calls"]) else {
        return;
    };
    let ended = run(job.env("FAKEGPU_FAULT", "1").env("NCCL_PROFILER_PLUGIN", "none")).with_code(1);
    assert!(ended.stderr.contains("WRONG allreduce f32 sum"), "{ended}");
    let log = std::fs::read_to_string(scratch.path().join("calls.0.jsonl")).expect("a log");
    assert!(log.lines().next_back().is_some_and(|line| line.contains("\"ok\":false")), "{log}");
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let mut job = Scratch::new().plain(built::nccl_host());
    job.arg(format!("--fake-gpu={}", built::fake_gpu().display())).args(["--lib", "/nonexistent/libnccl.so.2"]);
    let ended = run(job.current_dir("/")).with_code(2);
    assert!(ended.stderr.contains("--lib: cannot load /nonexistent/libnccl.so.2"), "{ended}");
}

#[test]
fn a_wrong_word_of_a_program_is_named() {
    for (program, named) in [("A.ar sync; A.xx", "`A.xx`"), ("3{ A.ar", "`}`"), ("A.ar wait:x", "`wait:x`")] {
        let ended = run(Scratch::new().plain(built::nccl_host()).args(["--program", program])).with_code(2);
        assert!(ended.stderr.contains(named), "{ended}");
    }
}
