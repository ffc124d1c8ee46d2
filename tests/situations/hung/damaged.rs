//! Recordings whose files are emptied, removed or unreadable: the tool claims nothing that only they show.

use std::fs;
use std::path::Path;

use serde_json::Value;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use super::incomplete::cannot_tell;
use super::job::{part_of, recorded_together, report, tool};

/// Five collectives, so that one who comes late is said, and a second reading of the clock.
const KILLED: &str = "world\nsleep 2s\ndone 0\ndone 1\ndone 2\ndone 3\ndone 4\nkill 9";
const WELL: &str = "world\nsleep 2s\ndone 0\nfinalize c\nexit 0";

fn recorded(words: &str) -> Scratch {
    recorded_together([words; 3], &[("NCCL_OTF2_FINALIZE", "offline")])
}

/// Removes a file, finds what is said then, does the same with it emptied, and brings it back.
fn damaged(path: &Path, check: impl Fn()) {
    let whole = fs::read(path).expect("there");
    fs::remove_file(path).expect("removed");
    check();
    fs::write(path, "").expect("emptied");
    check();
    fs::write(path, whole).expect("as it was");
}

/// `finalize` names the file each time, and so does `check` on the archive.
fn is_missed(scratch: &Scratch, file: &str) {
    for _again in 0..2 {
        let finalized = run(tool(scratch, "finalize").arg("--keep-journal").arg(scratch.out())).with_code(1);
        assert!(finalized.stdout.contains(file), "{file}: {finalized}");
    }
    let info = run(tool(scratch, "info").arg(scratch.out())).with_code(0);
    assert!(info.stdout.contains(file), "{file}: {info}");
    for made in ["traces.otf2", "traces.def", "hang.json"] {
        let _not_made = fs::remove_file(scratch.out().join(made));
    }
    for part in fs::read_dir(scratch.out().join("parts")).expect("there").flatten() {
        let _not_done = fs::remove_file(part.path().join("done"));
    }
}

fn state_of_rank_0(report: &Value) -> &Value {
    let mut processes = report["processes"].as_array().expect("a list").iter();
    &processes.find(|one| one["launcher_rank"] == 0).expect("recorded")["process_state"]
}

#[test]
fn without_clock_readings_no_times_are_compared() {
    for words in [KILLED, WELL] {
        let scratch = recorded(words);
        damaged(&part_of(&scratch, 0).join("journal/0.0"), || {
            let said = cannot_tell(&scratch, &scratch.out());
            assert!(said.stdout.contains("/journal/0.0"), "{said}");
            let report = report(&scratch.out());
            assert_ne!(report["communicators"][0]["straggler"]["rank"], 0, "{report:#}");
            assert_ne!(state_of_rank_0(&report), "gone", "{report:#}");
            is_missed(&scratch, "0.0");
        });
    }
}

#[test]
fn a_thread_whose_file_is_lost_is_missed() {
    let scratch = recorded(KILLED);
    damaged(&part_of(&scratch, 0).join("journal/1.0"), || {
        let said = cannot_tell(&scratch, &scratch.out());
        assert!(said.stdout.contains("/journal/1.0"), "{said}");
        is_missed(&scratch, "1.0");
    });
}

#[test]
fn what_an_unreadable_description_would_tell_is_not_claimed() {
    for words in [KILLED, WELL] {
        let scratch = recorded(words);
        damaged(&part_of(&scratch, 1).join("process.json"), || {
            let said = run(tool(&scratch, "hang").arg(scratch.out())).stdout;
            assert_eq!(said.starts_with("CANNOT TELL: "), words == KILLED, "{said}");
            assert!(said.contains("process.json"), "{said}");
            for claim in ["on other hosts", "were not recorded (", "no API events", "recorded nothing", "DIED"] {
                assert!(!said.contains(claim), "{claim}: {said}");
            }
            is_missed(&scratch, "process.json");
        });
    }
}

#[test]
fn numbers_of_late_callbacks_that_cannot_be_read_are_missed() {
    let scratch = recorded(KILLED);
    for garbage in ["", "{", r#"{"stops": -1}"#] {
        fs::write(part_of(&scratch, 2).join("late.json"), garbage).expect("written");
        is_missed(&scratch, "late.json");
    }
}
