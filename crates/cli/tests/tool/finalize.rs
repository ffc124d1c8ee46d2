//! `nccl-otf2 finalize`, and how `run` handles processes that were killed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use whole_plugin::machine::skip;

use super::recording::{NO_PROCESS, record, record_in};
use super::support::{Scratch, text};

/// A job in `trace` with this many killed ranks.
fn killed(ranks: u32, all_reduces: u64) -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    for rank in 0..ranks {
        record(&out, rank, NO_PROCESS, all_reduces);
    }
    (scratch, out)
}

/// The report of `finalize`, expecting this exit code and these states of the parts.
#[track_caller]
fn finalize(scratch: &Scratch, options: &[&str], code: i32, states: &[&str]) -> Value {
    let report = scratch.ends([&["finalize", "--json", "trace"], options].concat()).with_code(code).json();
    let parts = report["parts"].as_array().expect("parts");
    let found: Vec<&str> = parts.iter().map(|part| part["state"].as_str().expect("a state")).collect();
    assert_eq!(found, states, "{report:#}");
    report
}

#[test]
fn killed_processes_become_an_archive_once() {
    let (scratch, out) = killed(2, 3);
    let report = finalize(&scratch, &[], 0, &["written", "written"]);
    assert_eq!(report["archive"]["processes"], 2);
    assert_eq!((&report["complete"], &report["changed"]), (&true.into(), &true.into()));
    assert!(!out.join("parts/host-0/journal").exists());

    let anchor = fs::read(out.join("traces.otf2")).expect("an anchor");
    assert_eq!(finalize(&scratch, &[], 0, &["done", "done"])["changed"], false);
    assert_eq!(fs::read(out.join("traces.otf2")).expect("an anchor"), anchor);

    scratch.ends(["check", "trace"]).with_code(0);
}

/// A copy that took its time, or that lost the modes. The archive is private again, whatever the parts are.
#[test]
fn an_event_file_that_is_back_is_in_the_archive_again() {
    let (scratch, out) = killed(2, 3);
    finalize(&scratch, &[], 0, &["written", "written"]);
    let files =
        |directory: &str| fs::read_dir(out.join(directory)).expect("there").map(|entry| entry.expect("there").path());
    let length = |path: &PathBuf| fs::metadata(path).expect("there").len();
    let file = files("parts/host-0/traces").max_by_key(length).expect("an event file");
    let away = scratch.join("away");
    fs::rename(&file, &away).expect("moved");
    fs::remove_dir_all(out.join("traces")).and_then(|()| fs::remove_file(out.join("traces.otf2"))).expect("removed");
    assert_eq!(finalize(&scratch, &[], 1, &["done", "done"])["complete"], false);
    assert_eq!(finalize(&scratch, &[], 1, &["done", "done"])["changed"], false);
    fs::copy(&away, &file).and_then(|_| fs::set_permissions(&file, Permissions::from_mode(0o644))).expect("back");
    let report = finalize(&scratch, &[], 0, &["done", "done"]);
    assert_eq!([&report["complete"], &report["changed"]], [true, true]);
    scratch.ends(["check", "trace"]).with_code(0);
    for file in files("traces") {
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
}

#[test]
fn what_is_in_the_archive_is_chosen_anew_while_journals_are_kept() {
    let (scratch, out) = killed(2, 3);
    finalize(&scratch, &["--keep-journal"], 0, &["written", "written"]);
    finalize(&scratch, &["--level=light"], 0, &["written", "written"]);
    let archive = otf2::Archive::open(&out.join("traces.otf2")).expect("opens");
    assert_eq!(archive.property("NCCL::LEVEL"), Some("light"));
    scratch.ends(["check", "trace"]).with_code(0);

    fs::remove_dir_all(out.join("parts/host-1/journal")).expect("removed");
    for (option, said) in
        [("--level=full", "NCCL_OTF2_KEEP_JOURNAL=1"), ("--level=fulll", "not one of light, standard, full")]
    {
        scratch.ends(["finalize", option, "trace"]).with_code(2).assert_prints(said);
    }
}

#[test]
fn a_part_that_comes_later_is_added() {
    let (scratch, out) = killed(1, 1);
    let report = finalize(&scratch, &["--keep-journal"], 0, &["written"]);
    assert_eq!((&report["archive"]["processes"], &report["archive"]["ranks_missing"]), (&1.into(), &1.into()));
    assert!(out.join("parts/host-0/journal").exists());
    record(&out, 1, NO_PROCESS, 1);
    assert_eq!(finalize(&scratch, &[], 0, &["done", "written"])["archive"]["processes"], 2);
}

#[test]
fn running_processes_are_left_alone_unless_asked_for() {
    let (scratch, out) = killed(1, 1);
    record(&out, 1, std::process::id(), 1);
    assert_eq!(finalize(&scratch, &[], 1, &["written", "live"])["complete"], false);
    let report = finalize(&scratch, &["--include-live"], 0, &["done", "written"]);
    assert_eq!(report["archive"]["processes"], 2);
}

#[test]
fn shards_write_parts_and_say_how_to_go_on() {
    let (scratch, out) = killed(3, 1);
    for (shard, said) in [
        ("--shard=0/2", "2 parts of this shard written, 0 before"),
        ("--shard=0/2", "0 parts of this shard written, 2 before"),
        ("--shard=1/2", "1 part of this shard written"),
    ] {
        let ended = scratch.ends(["finalize", shard, "trace"]).with_code(0);
        ended.assert_prints(said);
        ended.assert_prints("nccl-otf2 finalize");
        assert!(!out.join("traces.otf2").exists());
    }
    for wrong in ["2/2", "0/0", "1", "a/b"] {
        scratch.ends(["finalize", "--shard", wrong, "trace"]).with_code(2).assert_prints("is I/N with I from 0 to N-1");
    }
    assert_eq!(finalize(&scratch, &[], 0, &["done"; 3])["archive"]["processes"], 3);
}

/// On a terminal, progress and the current step are shown.
#[test]
fn a_terminal_shows_progress() {
    let (scratch, out) = killed(2, 1);
    // util-linux's `script` runs a command in a terminal.
    let tool = scratch.tool().get_program().to_owned();
    let command = format!("'{}' finalize '{}'", tool.display(), out.display());
    let mut script = Command::new("script");
    let Ok(output) = script.args(["-qec", &command, "/dev/null"]).env("TERM", "xterm").output() else {
        skip("there is no program `script`");
        return;
    };
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}");
    let bars: Vec<&str> = shown.split('\r').filter(|line| line.contains(['░', '█'])).collect();
    assert!(bars.iter().any(|bar| bar.contains("0/2")), "{shown}");
    for bar in bars {
        assert!(
            ["journals ", "parts ", "locations ", "operations ", "calls "].iter().any(|what| bar.contains(what)),
            "{bar}"
        );
        assert!(!bar.contains("0/0"), "{bar}");
    }
    let after = shown.rsplit("\u{1b}[2K").next().unwrap_or_default();
    assert!(!after.contains(['░', '█']), "the bar is taken away: {after}");
    assert_eq!(scratch.ends(["finalize", "trace"]).stderr, "", "no terminal, no bar");
}

#[test]
fn a_part_that_cannot_go_into_the_archive_is_listed_with_its_reason() {
    let (scratch, out) = killed(2, 1);
    let journal = out.join("parts/host-1/journal");
    fs::remove_dir_all(&journal).expect("removed");
    fs::write(&journal, "no directory").expect("written");
    let report = finalize(&scratch, &[], 1, &["written", "failed"]);
    assert!(report["parts"][1]["reason"].as_str().is_some_and(|reason| reason.contains("journal")), "{report:#}");

    // A part that was written but cannot be read: the archive that contains it stays.
    let (scratch, out) = killed(2, 1);
    finalize(&scratch, &[], 0, &["written", "written"]);
    fs::write(out.join("parts/host-1/manifest"), "{").expect("damaged");
    let report = finalize(&scratch, &[], 1, &["done", "failed"]);
    assert_eq!((&report["changed"], &report["archive"]["processes"]), (&false.into(), &2.into()));
}

#[test]
fn what_makes_no_archive_is_an_error() {
    let scratch = Scratch::new();
    record(&scratch.join("trace"), 0, std::process::id(), 1);
    assert_eq!(finalize(&scratch, &[], 2, &["live"])["archive"], Value::Null);
    fs::create_dir(scratch.join("empty")).expect("made");
    for (path, word) in [("missing", "no such file"), ("empty", "parts/")] {
        scratch.ends(["finalize", path]).with_code(2).assert_prints(word);
    }
}

#[test]
fn run_completes_what_killed_processes_left_or_leaves_it_to_finalize() {
    let scratch = Scratch::new();
    for rank in 0..2 {
        record(&scratch.join("recorded"), rank, NO_PROCESS, 2);
    }
    let copy = "cp -r recorded/parts $NCCL_OTF2_DIR; exit 7";
    let ended = scratch.ran(&["-o", "trace"], copy).with_code(7);
    ended.assert_prints("2 processes");
    ended.assert_prints("vampir");
    assert!(scratch.join("trace/traces.otf2").exists());
    scratch.ran(&["-o", "later", "--no-finalize"], copy).with_code(7).assert_prints("nccl-otf2 finalize");
    assert!(!scratch.join("later/traces.otf2").exists() && scratch.join("later/parts/host-0/journal").exists());
}

/// A rank of a job cannot see whether the others still run: it writes only its own part.
#[test]
fn a_rank_of_a_job_writes_its_own_part_only() {
    let scratch = Scratch::new();
    for rank in 0..2 {
        record_in(&scratch.join("recorded"), rank, NO_PROCESS, 2, |info| {
            info.environment.rank = Some(rank);
            info.environment.size = Some(2);
            info.environment.launcher = Some("PMI".to_owned());
        });
    }
    let ranked = |rank: &str, script: &str| {
        scratch.run(&["-o", "trace", "--append"], script).env("PMI_RANK", rank).env("PMI_SIZE", "2").assert().code(0);
    };
    let exists = |file: &str| scratch.join("trace").join(file).exists();
    ranked("1", "cp -r recorded/parts $NCCL_OTF2_DIR");
    assert!(exists("parts/host-1/done") && !exists("parts/host-0/done") && !exists("traces.otf2"));
    // The last one makes the archive.
    ranked("0", "true");
    assert!(exists("parts/host-0/done") && exists("traces.otf2"));
}
