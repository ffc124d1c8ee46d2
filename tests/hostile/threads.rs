//! Threads that are cancelled, leave callbacks by `siglongjmp`, or have little stack: the program ends as with a plugin
//! that does nothing, and what could not be recorded is counted.

use std::path::{Path, PathBuf};

use whole_plugin::built;
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::scratch::Scratch;

/// The program of `threads.c`.
fn program(scratch: &Scratch) -> PathBuf {
    let program = scratch.path().join("threads");
    let mut compiler = scratch.plain("cc");
    compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]).arg(built::root());
    compiler.arg("-o").arg(&program).arg(built::root().join("tests/hostile/threads.c")).arg("-ldl");
    let _silent = run(&mut compiler).with_code(0);
    program
}

fn with_plugin(scratch: &Scratch, plugin: &Path, scenario: &str) -> FinishedProcess {
    let mut command = scratch.command(program(scratch));
    run(command.arg(plugin).arg(scenario).env("NCCL_OTF2_EVENTS", "full"))
}

/// What the scenario prints, with our plugin; it ends as with the empty one.
fn as_without(scratch: &Scratch, scenario: &str) -> FinishedProcess {
    let _ended = with_plugin(scratch, &built::empty_plugin(), scenario).with_code(0);
    let ended = with_plugin(scratch, &built::plugin(), scenario).with_code(0);
    assert!(!ended.stderr.contains("journal:"), "records are damaged: {ended}");
    ended
}

/// A number after a word in what the program prints.
fn number(ended: &FinishedProcess, word: &str) -> u64 {
    let mut values = ended.stdout.lines().filter_map(|line| line.strip_prefix(word)?.trim().parse().ok());
    values.next().unwrap_or_else(|| panic!("no {word}: {ended}"))
}

/// Every start is recorded or counted, but for what the thread itself has left. Returns how many were lost.
fn all_are_accounted_for(scratch: &Scratch, ended: &FinishedProcess) -> u64 {
    let archive = scratch.sound_archive();
    let [starts, jumps] = ["starts", "jumps"].map(|word| number(ended, word));
    let (seen, lost) = (archive.count("COLL::SEEN"), archive.count("COLL::LOST"));
    assert!((starts - jumps..=starts).contains(&(seen + lost)), "{seen} seen and {lost} lost of {starts}: {ended}");
    lost
}

#[test]
fn a_thread_that_leaves_callbacks_by_siglongjmp_records_again() {
    // On the stack of the thread, and on one of its own for the handler.
    for scenario in ["longjmp", "longjmp-alternate"] {
        let scratch = Scratch::new();
        let ended = as_without(&scratch, scenario);
        let lost = all_are_accounted_for(&scratch, &ended);
        assert_eq!(lost, 0, "of starts that were not left: {ended}");
        // Which kind it was is not known.
        let archive = scratch.archive();
        let left = archive.count("UNKNOWN::LOST") + archive.count("STOPS_LOST");
        assert!((1..=number(&ended, "jumps")).contains(&left), "{left} left: {ended}");
    }
}

#[test]
fn callbacks_of_a_signal_handler_within_a_callback_are_counted() {
    for scenario in ["nested", "nested-alternate"] {
        let scratch = Scratch::new();
        let ended = as_without(&scratch, scenario);
        let lost = all_are_accounted_for(&scratch, &ended);
        assert!(lost > 0, "no signal came within a callback: {ended}");
    }
}

/// In the first event of a thread, in those after it, in `init`, in `finalize`, and where the thread ends.
#[test]
fn a_cancelled_thread_is_cancelled_after_the_callback() {
    let scratch = Scratch::new();
    let ended = as_without(&scratch, "cancel");
    assert_eq!(all_are_accounted_for(&scratch, &ended), 0);
}

/// A build with debug information needs more than one for users (`tests/cost`).
#[test]
fn a_callback_needs_little_stack() {
    for mode in ["trace", "flight"] {
        let scratch = Scratch::new();
        let mut command = scratch.command(program(&scratch));
        command.arg(built::plugin()).arg("stack").env("NCCL_OTF2_EVENTS", "full").env("NCCL_OTF2_MODE", mode);
        let ended = run(&mut command).with_code(0);
        let bytes = number(&ended, "deepest");
        assert!(bytes <= 24 << 10, "{bytes} bytes: {ended}");
        let _sound = scratch.sound_archive();
    }
}
