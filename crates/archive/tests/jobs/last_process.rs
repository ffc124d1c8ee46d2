//! Only one process, the last, unifies at the end of a job.

use std::path::Path;

use crate::job::{new_job, write};
use archive::is_last_process;
use journal::testing::{Process, ProcessIdentity};

fn finish(out: &Path, who: ProcessIdentity) {
    let mut process = Process::begin(out, who);
    process.all_reduce(0);
    write(&process.end());
}

fn last(out: &Path) -> bool {
    is_last_process(out).expect("the directory can be read")
}

#[test]
fn the_launchers_size_says_when_all_are_there() {
    let out: &Path = &new_job();
    for rank in 0..3 {
        assert!(rank == 0 || !last(out), "{rank} of 3 parts are not all");
        finish(out, ProcessIdentity { rank, ranks: 3, in_environment: true });
    }
    assert!(last(out));
    assert!(!last(out), "there is one winner");
}

#[test]
fn without_a_launcher_the_communicators_say_it() {
    let out: &Path = &new_job();
    let who = |rank| ProcessIdentity { rank, ranks: 2, in_environment: false };
    finish(out, who(0));
    assert!(!last(out), "rank 1 is missing");
    let still_running = Process::begin(out, who(7));
    finish(out, who(1));
    assert!(!last(out), "a part is not done");
    std::fs::remove_dir_all(still_running.leave()).expect("it was there");
    assert!(last(out));
}
