//! Which directory a job uses, and what `run` creates there and prints.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::recording::{NO_PROCESS, record};
use super::support::{Scratch, ToolOutput};

#[test]
fn run_keeps_its_recordings_apart_from_those_that_are_there_or_adds_to_them() {
    let scratch = Scratch::new();
    record(&scratch.join("trace"), 0, NO_PROCESS, 1);
    record(&scratch.join("recorded"), 1, NO_PROCESS, 1);
    let copy = "cp -r recorded/parts $NCCL_OTF2_DIR; echo $NCCL_OTF2_DIR $NCCL_OTF2_JOB";
    let ended = scratch.ran(&["-o", "trace"], copy).with_code(0);
    let (directory, job) = ended.stdout.trim().split_once(' ').expect("both");
    assert!(directory.ends_with(&format!("/trace/jobs/{job}")), "{ended:?}");
    ended.assert_prints("recordings of another run (run-1)");
    ended.assert_prints("--append");
    assert!(Path::new(directory).join("traces.otf2").exists());
    assert!(!scratch.join("trace/traces.otf2").exists());
    // If nothing is recorded, nothing is left.
    scratch.ran(&["-o", "trace"], "true").with_code(0);
    assert_eq!(fs::read_dir(scratch.join("trace/jobs")).expect("there").count(), 1);

    let ended = scratch.ran(&["-o", "trace", "--append"], copy).with_code(0);
    assert!(ended.stdout.trim().ends_with("/trace run-1"), "{ended:?}");
    ended.assert_prints("2 processes");
}

#[test]
fn a_job_is_named_by_its_directory_or_what_is_in_it() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    for rank in 0..2 {
        record(&out, rank, NO_PROCESS, 1);
    }
    scratch.ends(["finalize", "trace", "--keep-journal"]).with_code(0);
    for verb in [
        "finalize",
        "hang --after 0",
        "watch --once",
        "top --once",
        "metrics --once",
        "info",
        "stats",
        "check",
        "print --limit 1",
    ] {
        let code = |path: &str| {
            let ended = scratch.ends(verb.split(' ').chain([path]));
            // `hang` exits with 2 also if it cannot tell.
            assert!(!ended.stderr.contains("error: "), "{verb} {path}: {ended:?}");
            ended.code
        };
        let expected = code("trace");
        for path in ["trace/traces.otf2", "trace/parts", "trace/parts/"] {
            assert_eq!(code(path), expected, "{verb} {path}");
        }
    }
    let inside = ToolOutput::run(scratch.tool().current_dir(&out).args(["hang", "parts"]));
    assert!(inside.stdout.starts_with("CANNOT TELL: "), "{inside:?}");
}

/// A launcher that is killed by a signal is gone before its workers are.
#[test]
fn run_waits_for_processes_that_outlive_the_command() {
    let scratch = Scratch::new();
    // The worker is no child of this test, or it would stay as a zombie.
    let worker = Command::new("sh").args(["-c", "sleep 600 > /dev/null 2>&1 & echo $!"]).output().expect("sh");
    let worker = String::from_utf8(worker.stdout).expect("a number").trim().to_owned();
    record(&scratch.join("recorded"), 0, worker.parse().expect("a number"), 1);
    let script = format!("cp -r recorded/parts $NCCL_OTF2_DIR; (sleep 2; kill {worker}) > /dev/null 2>&1 & exit 130");
    let ended = scratch.ran(&["-o", "trace"], &script).with_code(130);
    ended.assert_prints("1 process that it left behind and that is still recording");
    assert!(!ended.stderr.contains("still runs"), "{ended:?}");
    assert!(scratch.join("trace/traces.otf2").exists(), "{ended:?}");
}

#[test]
fn one_rank_says_what_there_is_and_begins_with_the_answers() {
    let scratch = Scratch::new();
    for rank in 0..2 {
        record(&scratch.join("trace"), rank, NO_PROCESS, 1);
    }
    scratch.ends(["finalize", "trace"]).with_code(0);
    let said = ["0", "1"].map(|rank| {
        let mut run = scratch.run(&["-o", "trace", "--append"], "true");
        ToolOutput::run(run.env("PMI_RANK", rank).env("PMI_SIZE", "2")).stderr
    });
    let all = said.concat();
    assert_eq!(all.matches("traces.otf2: 2 processes").count(), 1, "{all}");
    let verbs = ["nccl-otf2 stats", "nccl-otf2 report", "vampir", "nccl-otf2 info"];
    let places: Vec<_> = verbs.iter().map(|verb| all.find(verb).unwrap_or_else(|| panic!("{verb}: {all}"))).collect();
    assert!(places.is_sorted(), "{all}");
}

/// The command died and left the recordings of some ranks: `run` prints the state of each, and advice.
#[test]
fn run_says_what_a_command_that_died_left() {
    let scratch = Scratch::new();
    for rank in 0..2 {
        record(&scratch.join("recorded"), rank, NO_PROCESS, 2);
    }
    let copy = "mkdir -p $NCCL_OTF2_DIR/parts; cp -r recorded/parts";
    for (name, script, said) in [
        (
            "one",
            format!("{copy}/host-0 $NCCL_OTF2_DIR/parts; kill -9 $$"),
            &["one/traces.otf2: 1 process, ", ", 1 rank not recorded", "nccl-otf2 stats"][..],
        ),
        (
            "damaged",
            format!(
                "{copy}/host-* $NCCL_OTF2_DIR/parts; cd $NCCL_OTF2_DIR/parts/host-1; rm -r journal; touch journal; kill -9 $$"
            ),
            &["host-1 is missing: ", "damaged/traces.otf2: 1 process, "],
        ),
    ] {
        let ended = scratch.ran(&["-o", name], &script).with_code(128 + 9);
        said.iter().for_each(|words| ended.assert_prints(words));
    }
    // If each rank has its own tool, the other ranks may still run.
    let mut run = scratch.run(&["-o", "ranks", "--append"], &format!("{copy}/host-1 $NCCL_OTF2_DIR/parts; kill -9 $$"));
    let ended = ToolOutput::run(run.env("PMI_RANK", "0").env("PMI_SIZE", "2")).with_code(128 + 9);
    ended.assert_prints("the last process of the job makes the archive in ");
    ended.assert_prints("if one was killed, `nccl-otf2 finalize ");
}

#[test]
fn top_says_what_is_missing_and_what_is_open() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    record(&out, 0, std::process::id(), 3);
    let ended = scratch.ends(["top", "trace", "--once"]).with_code(0);
    ended.assert_prints("1 process runs; nothing is missing\n");
    ended.assert_prints("Cannot tell which rank comes last: no communicator has all its ranks on this host\n");
    record(&out, 1, NO_PROCESS, 2);
    fs::write(out.join("parts/host-1/journal/0.0"), "no journal").expect("damaged");
    let ended = scratch.ends(["top", "trace", "--once"]).with_code(0);
    ended.assert_prints("1 record is damaged");
}
