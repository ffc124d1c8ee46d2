//! File descriptors of the program: the plugin holds none, writes to no file of the program's, and gives no file of its
//! own the number of a standard stream.

use std::process::Command;

use whole_plugin::built::plugin;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use super::{EVENTS, program, survives};

#[test]
fn no_descriptor_is_held_between_calls() {
    let _survived = survives("init work same-numbers finalize same-numbers", &[]);
}

#[test]
fn numbers_that_the_program_closes_are_its_own() {
    for steps in [
        "init close-from=3 own work finalize own-is-kept",
        "close-from=3 own init close-from=3 own work finalize own-is-kept",
    ] {
        let (_ended, scratch) = survives(steps, &[]);
        assert_eq!(scratch.archive().count("GROUP::WRITTEN"), EVENTS, "{steps}");
    }
}

/// What the system does not read is not damage: the journal stays for `finalize`.
#[test]
fn reads_that_fail_in_the_job_leave_the_archive_to_the_tool() {
    // Of the journal, and of process.json.
    let denied = [libc::EBADF, libc::EIO, libc::EMFILE].map(|error| (error, libc::SYS_pread64));
    for (error, call) in denied.into_iter().chain([(libc::EIO, libc::SYS_read)]) {
        let steps = format!("init work deny={error}:{call} finalize");
        let (ended, scratch) = survives(&steps, &[]);
        assert!(ended.stderr.contains("no archive yet: ") && !ended.stderr.contains("nothing lost"), "{ended}");
        assert_eq!(scratch.archive().count("GROUP::WRITTEN"), EVENTS, "{ended}");
        let info = run(scratch.tool(&["info"]).arg(scratch.out())).with_code(0);
        assert!(!info.stdout.contains("not known"), "{info}");
    }
}

#[test]
fn closed_standard_streams_stay_closed() {
    for closed in ["close=2", "close=0 close=2", "close=0 close=1 close=2"] {
        let steps = format!("{closed} init work same-numbers finalize same-numbers");
        let (_ended, scratch) = survives(&steps, &[]);
        let archive = scratch.archive();
        assert_eq!(archive.count("GROUP::WRITTEN"), EVENTS, "{closed}");
        let report = archive.check();
        assert!(report["rules"]["A07"]["count"].as_u64().is_none_or(|count| count == 0), "{closed}: {report}");
    }
}

/// A file system may say that it reserved what it did not.
#[test]
fn a_reservation_that_holds_nothing_ends_the_recording_only() {
    const SOURCE: &str = "
        #define _GNU_SOURCE
        #include <sys/syscall.h>
        #include <unistd.h>
        int fallocate(int file, int mode, long offset, long length) {
          static int calls;
          return __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) < HONEST
            ? (int)syscall(SYS_fallocate, file, mode, offset, length) : 0;
        }
        int fallocate64(int file, int mode, long offset, long length) { return fallocate(file, mode, offset, length); }
    ";
    for (honest, said) in [(0, "nothing is recorded: "), (3, "not everything was recorded: ")] {
        let scratch = Scratch::new();
        let (source, library) = (scratch.path().join("reserve.c"), scratch.path().join("reserve.so"));
        std::fs::write(&source, SOURCE).expect("written");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(format!("-DHONEST={honest}")).arg(source);
        let _built = run(&mut compiler).with_code(0);
        let mut command = program(&scratch, &plugin(), "init work finalize");
        let ended = run(command.env("LD_PRELOAD", library)).with_code(0);
        assert!(ended.stderr.contains(said) && ended.stderr.contains("Bad address"), "{ended}");
        if honest > 0 {
            let _finalized = scratch.finalize().with_code(0);
            let archive = scratch.sound_archive();
            assert_eq!(archive.count("GROUP::WRITTEN") + archive.count("GROUP::LOST"), EVENTS, "{ended}");
        }
    }
}
