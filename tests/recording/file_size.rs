//! A limit on the size of files (`ulimit -f`): the program never gets SIGXFSZ because of the plugin, what fits is
//! recorded, and the rest is counted.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output};

use whole_plugin::archive::Archive;
use whole_plugin::machine::{has, skip};
use whole_plugin::process::{run, through};
use whole_plugin::scratch::Scratch;

use crate::{EVENTS, MUCH};

/// Runs a command whose files may have so many bytes. Its output goes to pipes, which have no limit.
fn limited(bytes: u64, command: &Command) -> Output {
    under(&format!("--fsize={bytes}"), command)
}

/// Runs a command under a limit of prlimit's.
pub(crate) fn under(limit: &str, command: &Command) -> Output {
    with_limit(limit, command).output().expect("prlimit runs")
}

/// A command under a limit of prlimit's.
pub(crate) fn with_limit(limit: &str, command: &Command) -> Command {
    let mut prlimit = Command::new("prlimit");
    prlimit.arg(limit);
    through(prlimit, command)
}

pub(crate) fn can_limit() -> bool {
    let can = has("prlimit");
    if !can {
        skip("there is no prlimit (util-linux)");
    }
    can
}

#[test]
fn the_program_ends_well_under_every_limit() {
    if !can_limit() {
        return;
    }
    for bytes in [0, 100, 4 << 10, 64 << 10, (1 << 20) - 1, 1 << 20, 3 << 20, 5_000_000, 63 << 20, 64 << 20, 65 << 20] {
        let scratch = Scratch::new();
        let output = limited(bytes, &scratch.script(MUCH));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{bytes}: {}\n{said}", output.status);
        if bytes < 1 << 20 {
            assert!(said.contains("nothing is recorded: ") && said.contains("ulimit -f"), "{bytes}: {said}");
            let parts = std::fs::read_dir(scratch.out().join("parts")).into_iter().flatten();
            assert_eq!(parts.count(), 0, "{bytes}: a part that is never done");
            continue;
        }
        // A journal is cut into files that fit; an event file of an archive cannot be.
        let archive = scratch.out().join("traces.otf2");
        if !archive.exists() {
            assert!(said.contains("the journal is kept") && said.contains("ulimit -f"), "{bytes}: {said}");
        }
        assert!(archive.exists() || bytes < 8 << 20, "{bytes}: {said}");
        let _finalized = scratch.finalize().with_code(0);
        let archive = Archive::open(&scratch.out());
        archive.sound();
        assert_eq!(archive.count("GROUPAPI::WRITTEN"), EVENTS, "{bytes}: {said}");
    }
}

/// What the program does with the signal is its own business, during the recording and after it.
#[test]
fn the_program_still_gets_its_own_signal() {
    if !can_limit() {
        return;
    }
    let signal = libc::SIGXFSZ;
    for (bytes, script) in [
        (64 << 10, format!("{MUCH}\nkill {signal}")),
        (2 << 20, MUCH.replace("finalize c", &format!("kill {signal}"))),
        (2 << 20, format!("{MUCH}\nkill {signal}")),
    ] {
        let scratch = Scratch::new();
        let output = limited(bytes, &scratch.script(&script));
        assert_eq!(output.status.signal(), Some(signal), "{bytes}: {}", output.status);
    }
}

#[test]
fn the_tool_says_why_it_cannot_write() {
    if !can_limit() {
        return;
    }
    let scratch = Scratch::new();
    let mut job = scratch.script(MUCH);
    job.env("NCCL_OTF2_FINALIZE", "offline");
    let _ended = run(&mut job).with_code(0);
    let mut finalize = scratch.tool(&["finalize"]);
    finalize.arg(scratch.out());
    let output = limited(64 << 10, &finalize);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{}\n{said}", output.status);
    assert!(said.contains("files are limited to 64 KiB here: ulimit -f unlimited"), "{said}");
    let _finalized = run(&mut finalize).with_code(0);
    assert_eq!(scratch.sound_archive().count("GROUPAPI::WRITTEN"), EVENTS);
}

/// `run` gives the program the signal as it was.
#[test]
fn a_program_under_run_has_the_signal() {
    let scratch = Scratch::new();
    let mut tool = scratch.tool(&["run", "--", "sh", "-c", "kill -XFSZ $$"]);
    let _ended = run(&mut tool).with_code(128 + libc::SIGXFSZ);
}
