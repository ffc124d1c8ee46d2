//! Which job's directory is meant, and what `run` makes of it.

use std::fs;
use std::path::Path;

use super::recording::{NO_PROCESS, record};
use super::support::{Scratch, text};

#[test]
fn run_keeps_its_recordings_apart_from_those_that_are_there_or_adds_to_them() {
    let scratch = Scratch::new();
    record(&scratch.join("trace"), 0, NO_PROCESS, 1);
    record(&scratch.join("recorded"), 1, NO_PROCESS, 1);
    let ran = |options: &[&str], script: &str| {
        let output = scratch.run(options, script).output().expect("ran");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let copy = "cp -r recorded/parts $NCCL_OTF2_DIR; echo $NCCL_OTF2_DIR $NCCL_OTF2_JOB";
    let (said, stderr) = ran(&["-o", "trace"], copy);
    let (directory, job) = said.trim().split_once(' ').expect("both");
    assert!(directory.ends_with(&format!("/trace/jobs/{job}")), "{said}");
    assert!(stderr.contains("recordings of another run (run-1)") && stderr.contains("--append"), "{stderr}");
    assert!(Path::new(directory).join("traces.otf2").exists());
    assert!(!scratch.join("trace/traces.otf2").exists());
    // Where nothing is recorded nothing is left.
    let _nothing = ran(&["-o", "trace"], "true");
    assert_eq!(fs::read_dir(scratch.join("trace/jobs")).expect("there").count(), 1);

    let (said, stderr) = ran(&["-o", "trace", "--append"], copy);
    assert!(said.trim().ends_with("/trace run-1"), "{said}");
    assert!(stderr.contains("2 processes"), "{stderr}");
}

#[test]
fn a_job_is_named_by_its_directory_or_what_is_in_it() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    for rank in 0..2 {
        record(&out, rank, NO_PROCESS, 1);
    }
    scratch.tool().args(["finalize", "trace", "--keep-journal"]).assert().code(0);
    let everywhere: [&[&str]; 9] = [
        &["finalize"],
        &["hang", "--after", "0"],
        &["watch", "--once"],
        &["top", "--once"],
        &["metrics", "--once"],
        &["info"],
        &["stats"],
        &["check"],
        &["print", "--limit", "1"],
    ];
    for verb in everywhere {
        let code = |path: &str| {
            let output = scratch.tool().args(verb).arg(path).output().expect("ran");
            // `hang` exits with 2 also where it cannot tell.
            assert!(!text(&output.stderr).contains("error: "), "{verb:?} {path}: {}", text(&output.stderr));
            output.status.code()
        };
        let expected = code("trace");
        for path in ["trace/traces.otf2", "trace/parts", "trace/parts/"] {
            assert_eq!(code(path), expected, "{verb:?} {path}");
        }
    }
    let inside = scratch.tool().current_dir(&out).args(["hang", "parts"]).output().expect("ran");
    assert!(text(&inside.stdout).starts_with("CANNOT TELL: "), "{}", text(&inside.stderr));
}

/// A launcher that a signal ends is gone before its workers are.
#[test]
fn run_waits_for_processes_that_outlive_the_command() {
    let scratch = Scratch::new();
    record(&scratch.join("recorded"), 0, NO_PROCESS, 1);
    let script = format!(
        "cp -r recorded/parts $NCCL_OTF2_DIR; sleep 2 > /dev/null 2>&1 & \
         sed -i s/{NO_PROCESS}/$!/ $NCCL_OTF2_DIR/parts/*/process.json; exit 130"
    );
    let output = scratch.run(&["-o", "trace"], &script).output().expect("ran");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130));
    assert!(stderr.contains("1 process that it left and that still records"), "{stderr}");
    assert!(!stderr.contains("still runs"), "{stderr}");
    assert!(scratch.join("trace/traces.otf2").exists(), "{stderr}");
}

#[test]
fn one_rank_says_what_there_is_and_begins_with_the_answers() {
    let scratch = Scratch::new();
    for rank in 0..2 {
        record(&scratch.join("trace"), rank, NO_PROCESS, 1);
    }
    scratch.tool().args(["finalize", "trace"]).assert().code(0);
    let said: Vec<String> = ["0", "1"]
        .into_iter()
        .map(|rank| {
            let mut run = scratch.run(&["-o", "trace", "--append"], "true");
            let output = run.env("PMI_RANK", rank).env("PMI_SIZE", "2").output().expect("ran");
            text(&output.stderr)
        })
        .collect();
    let all = said.concat();
    assert_eq!(all.matches("traces.otf2: 2 processes").count(), 1, "{all}");
    let verbs = ["nccl-otf2 stats", "nccl-otf2 report", "vampir", "nccl-otf2 info"];
    let places: Vec<_> = verbs.iter().map(|verb| all.find(verb).unwrap_or_else(|| panic!("{verb}: {all}"))).collect();
    assert!(places.is_sorted(), "{all}");
}
