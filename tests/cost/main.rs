//! What a callback costs, in instructions: the same on every machine, whatever else runs there.
//!
//! Times are measured by `plugin-host bench`, on machines that are quiet.

mod allocations;
mod hot_path;
mod no_memory;

use std::path::{Path, PathBuf};
use std::process::Command;

use whole_plugin::built;
use whole_plugin::machine::{has, skip};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// The most instructions that a callback may take on average, with everything recorded. Measured: 160 in a trace, 161
/// in a flight recording (rustc 1.95, x86-64). An allocation at each start of an event adds 35.
const MOST: f64 = 166.0;

/// The most instructions that writing may take per callback. Measured: 1389 (rustc 1.95, x86-64). When operations were
/// found by hashing it was 5313.
const MOST_WRITING: f64 = 1500.0;

/// The plugin as it is published: what `cargo xtask dist` made, where the variable names it.
fn optimised_plugin() -> PathBuf {
    if let Some(published) = std::env::var_os("NCCL_OTF2_TEST_PUBLISHED_PLUGIN") {
        return published.into();
    }
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // All that is installed: the plugin alone has other features of some crates, and would be compiled anew.
    build.args(["build", "--quiet", "--profile", "dist", "--locked"]);
    build.current_dir(built::root());
    let _built = run(&mut build).with_code(0);
    built::profile_folder().parent().expect("target").join("dist/libnccl_profiler_otf2.so")
}

/// Instructions and callbacks of a process that repeats the callbacks of an all-reduce, or what `words` ask for.
fn count(plugin: &Path, (mode, finalize): (&str, &str), words: &[&str], iterations: u32) -> (f64, f64) {
    let scratch = Scratch::new();
    let mut command = scratch.command("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(built::plugin_host()).arg("bench").arg(plugin);
    command.args(["--no-timing", "--iterations", &iterations.to_string()]).args(words);
    command
        .env("NCCL_OTF2_EVENTS", "full")
        .env("NCCL_OTF2_MODE", mode)
        .env("NCCL_OTF2_FLIGHT_SIZE", "8M")
        .env("NCCL_OTF2_FINALIZE", finalize);
    let ended = run(&mut command).with_code(0);
    let number = |text: &str, before: &str, after: &str| -> f64 {
        let from = text.find(before).unwrap_or_else(|| panic!("no {before:?}: {ended}")) + before.len();
        let rest = &text[from..];
        let to = rest.find(after).unwrap_or_else(|| panic!("no {after:?}: {ended}"));
        rest[..to].trim().replace(',', "").parse().unwrap_or_else(|error| panic!("{error}: {ended}"))
    };
    let instructions = number(&ended.stderr, "I   refs:", "\n");
    let callbacks = number(&ended.stdout, " operations, ", " callbacks");
    (instructions, callbacks)
}

/// Of two lengths the difference: what begins and ends the process cancels.
fn instructions_per_callback(plugin: &Path, mode: &str, finalize: &str) -> f64 {
    let few = count(plugin, (mode, finalize), &[], 200);
    let many = count(plugin, (mode, finalize), &[], 1200);
    let callbacks = many.1 - few.1;
    assert!(callbacks > 100_000.0, "the plugin's mask leaves out events: {callbacks} callbacks");
    (many.0 - few.0) / callbacks
}

#[test]
#[ignore = "builds what is installed, which takes minutes: cargo xtask full runs it"]
fn a_callback_takes_few_instructions() {
    if !has("valgrind") {
        skip("there is no valgrind (apt-get install valgrind)");
        return;
    }
    let plugin = optimised_plugin();
    let empty = built::profile_folder().join("libnccl_profiler_empty.so");
    assert!(empty.exists(), "there is no {}: run cargo xtask test", empty.display());
    let calling = instructions_per_callback(&empty, "trace", "offline");
    // A flight recording removes what is old meanwhile, on a thread of its own.
    for mode in ["trace", "flight"] {
        let recording = instructions_per_callback(&plugin, mode, "offline") - calling;
        eprintln!("{mode}: {recording:.1} instructions a callback, beside {calling:.1} for calling it");
        assert!(recording > 20.0, "nothing can be recorded with {recording:.1} instructions");
        assert!(recording < MOST, "{mode}: {recording:.1} instructions a callback are too many: the bound is {MOST}");
    }
}

/// The most stack that a callback of an event may take, also a thread's first one and the one that begins a file, in
/// bytes. Measured: 7560 (rustc 1.95, x86-64).
const MOST_STACK: u64 = 8 << 10;

#[test]
#[ignore = "builds what is installed, which takes minutes: cargo xtask full runs it"]
fn a_callback_needs_little_stack() {
    if !has("cc") {
        skip("there is no compiler");
        return;
    }
    let plugin = optimised_plugin();
    let scratch = Scratch::new();
    let program = scratch.path().join("threads");
    let mut compiler = scratch.plain("cc");
    compiler.args(["-O1", "-pthread", "-I"]).arg(built::root()).arg("-o").arg(&program);
    let _built = run(compiler.arg(built::root().join("tests/hostile/threads.c")).arg("-ldl")).with_code(0);
    // A stack in which all of it can be measured, and the smallest one.
    for (mode, scenario) in [("trace", "stack"), ("flight", "stack"), ("trace", "small-stack")] {
        let mut command = scratch.command(&program);
        command.arg(&plugin).arg(scenario).env("NCCL_OTF2_EVENTS", "full").env("NCCL_OTF2_MODE", mode);
        let ended = run(command.env("NCCL_OTF2_FINALIZE", "offline")).with_code(0);
        let bytes = ended.stdout.lines().find_map(|line| line.strip_prefix("deepest ")?.parse::<u64>().ok());
        assert!(bytes.is_some_and(|bytes| bytes <= MOST_STACK), "{mode}, {scenario}: {ended}");
    }
}

/// The most instructions that a push or a pop of NVTX may take, on average, calling it included: with a registered
/// name, with a name, and with one that has a number. Measured: 343, 394 and 595 (rustc 1.95, x86-64). An allocation at
/// each push adds 17.
const MOST_OF_RANGE: [(&str, f64); 3] = [("--nvtx", 355.0), ("--nvtx=forward", 406.0), ("--nvtx=train-step-17", 607.0)];

#[test]
#[ignore = "builds what is installed, which takes minutes: cargo xtask full runs it"]
fn a_range_takes_few_instructions() {
    if !has("valgrind") {
        skip("there is no valgrind (apt-get install valgrind)");
        return;
    }
    let plugin = optimised_plugin();
    for (words, most) in MOST_OF_RANGE {
        let few = count(&plugin, ("trace", "offline"), &[words], 10_000);
        let many = count(&plugin, ("trace", "offline"), &[words], 60_000);
        let range = (many.0 - few.0) / (many.1 - few.1);
        eprintln!("{words}: {range:.1} instructions a push or pop");
        assert!(range > 20.0, "nothing can be recorded with {range:.1} instructions");
        assert!(range < most, "{words}: {range:.1} instructions a push or pop are too many: the bound is {most}");
    }
}

/// Most instructions that timing a launch by CUDA events may take on the launching thread, the driver's own left out.
/// When this was written 403 were measured (rustc 1.95, x86-64).
const MOST_OF_LAUNCH: f64 = 450.0;
/// The same by CUPTI, CUPTI's own left out, too. When this was written 361 were measured.
const MOST_OF_LAUNCH_BY_CUPTI: f64 = 390.0;
/// Fewer launches than there are events at first: so each is timed, however slow the worker is here.
const LAUNCHES: [u32; 2] = [50, 450];

fn quick(scratch: &Scratch, source: &str, name: &str) -> PathBuf {
    let library = scratch.path().join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library);
    compiler.arg(format!("-Wl,-soname,{name}"));
    compiler.arg(built::root().join("tests/cost").join(source));
    let _ = run(&mut compiler).with_code(0);
    library
}

/// Instructions of the thread that has the most, which is the one that calls.
fn instructions_of_calling_thread(plugin: &Path, backend: &str, launches: u32) -> f64 {
    let scratch = Scratch::new();
    let driver = quick(&scratch, "quick_driver.c", "libcuda.so.1");
    let cupti = quick(&scratch, "quick_cupti.c", "libcupti.so.12");
    let mut command = scratch.command("valgrind");
    command.args(["--tool=callgrind", "--separate-threads=yes"]);
    command.arg("--callgrind-out-file=threads");
    command.arg(built::plugin_host()).arg("bench").arg(plugin);
    command.args(["--no-timing", "--iterations", &launches.to_string()]);
    command
        .env("LD_PRELOAD", driver)
        .env("NCCL_OTF2_GPU", backend)
        .env("NCCL_OTF2_CUPTI_LIB", cupti)
        .env("NCCL_OTF2_FINALIZE", "offline");
    let _ = run(&mut command).with_code(0);
    let files = std::fs::read_dir(scratch.path()).expect("the folder");
    files
        .filter_map(|file| {
            let file = file.expect("a file").path();
            let name = file.file_name()?.to_str()?;
            let text = name.starts_with("threads-").then(|| std::fs::read_to_string(&file))?;
            let text = text.expect("text");
            text.lines().rev().find_map(|line| {
                let totals = line.strip_prefix("totals:")?;
                totals.trim().parse::<f64>().ok()
            })
        })
        .fold(0.0, f64::max)
}

#[test]
#[ignore = "builds what is installed, which takes minutes: cargo xtask full runs it"]
fn timing_a_launch_takes_few_instructions() {
    if !has("valgrind") || !has("cc") {
        skip("there is no valgrind or no compiler");
        return;
    }
    let plugin = optimised_plugin();
    let [few, many] = LAUNCHES;
    let instructions_per_launch = |backend: &str| {
        let more = instructions_of_calling_thread(&plugin, backend, many)
            - instructions_of_calling_thread(&plugin, backend, few);
        more / f64::from(many - few)
    };
    let off = instructions_per_launch("off");
    for (backend, most) in [("events", MOST_OF_LAUNCH), ("cupti", MOST_OF_LAUNCH_BY_CUPTI)] {
        let timing = instructions_per_launch(backend) - off;
        eprintln!("{backend}: {timing:.1} instructions a launch");
        assert!(timing > 50.0, "{backend}: nothing can be timed with {timing:.1} instructions");
        assert!(timing < most, "{backend}: {timing:.1} instructions a launch are too many: the bound is {most}");
    }
}

/// The same for what becomes of the callback when the part is written at the end of the process.
#[test]
#[ignore = "builds what is installed, which takes minutes: cargo xtask full runs it"]
fn writing_takes_few_instructions() {
    if !has("valgrind") {
        skip("there is no valgrind (apt-get install valgrind)");
        return;
    }
    let plugin = optimised_plugin();
    let recording = instructions_per_callback(&plugin, "trace", "offline");
    let writing = instructions_per_callback(&plugin, "trace", "inline") - recording;
    eprintln!("{writing:.1} instructions to write what a callback said");
    assert!(writing > 100.0, "nothing can be written with {writing:.1} instructions");
    assert!(
        writing < MOST_WRITING,
        "{writing:.1} instructions a callback are too many to write it: the bound is {MOST_WRITING}"
    );
}
