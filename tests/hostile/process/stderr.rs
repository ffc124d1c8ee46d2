//! Standard error as programs have it: a line of the plugin's neither ends nor blocks the program, and reaches whoever
//! reads.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use whole_plugin::built::plugin;
use whole_plugin::machine::{has, skip};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use super::{program, survives};

const STEPS: &str = "init work finalize";
const SAID: &str = "nccl-otf2: version ";

#[test]
fn a_line_that_nobody_reads_is_lost() {
    for kind in ["broken", "full", "terminal", "socket"] {
        let (ended, _scratch) = survives(&format!("stderr={kind} {STEPS}"), &[]);
        assert_eq!(ended.stderr, "", "{kind}");
    }
}

#[test]
fn a_signal_of_the_programs_own_stays_pending() {
    let _survived = survives("stderr=broken pipe=kept work finalize", &[]);
}

#[test]
fn a_line_reaches_who_reads_a_pipe_a_socket_or_a_terminal() {
    let scratch = Scratch::new();
    let output = program(&scratch, &plugin(), STEPS).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(SAID), "a pipe: {output:?}");

    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    let mut command = program(&scratch, &plugin(), STEPS);
    let status = command.stderr(OwnedFd::from(theirs)).status().expect("it runs");
    drop(command);
    let mut said = String::new();
    ours.read_to_string(&mut said).expect("text");
    assert!(status.success() && said.contains(SAID), "a socket: {status}, {said}");

    if !has("script") {
        return skip("there is no script (util-linux)");
    }
    let command = program(&scratch, &plugin(), STEPS);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let mut script = scratch.command("script");
    script.args(["-qec", &words.join(" "), "/dev/null"]).env("NCCL_OTF2_VERBOSITY", "verbose");
    let ended = run(&mut script).with_code(0);
    assert!(ended.stdout.contains(SAID), "a terminal: {ended}");
}

/// A pipe takes no more at once.
#[test]
fn a_long_line_is_cut() {
    let scratch = Scratch::new();
    let mut command: Command = program(&scratch, &plugin(), STEPS);
    let output = command.env("NCCL_OTF2_EVENTS", "ö".repeat(5000)).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().next().unwrap_or_default();
    assert!((libc::PIPE_BUF - 2..libc::PIPE_BUF).contains(&line.len()), "{}: {output:?}", line.len());
    assert!(output.status.success() && said.contains(SAID), "the next line is whole: {output:?}");
}
