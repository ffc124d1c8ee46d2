//! Journals that are damaged, lie elsewhere, or have company.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use journal::format::{HEADER_WORDS, header};
use serde_json::Value;
use whole_plugin::process::{Running, run, start};
use whole_plugin::scratch::Scratch;

use crate::parts::{finalize, job, report};

/// Breaks a record in the middle of what the main thread recorded.
fn damage(journal: &Path) {
    let path = journal.join("1.0");
    let mut bytes = fs::read(&path).expect("readable");
    let (words, _) = bytes.as_chunks::<8>();
    let committed = u64::from_le_bytes(words[header::COMMITTED]);
    let committed = usize::try_from(committed).expect("small");
    let middle = usize::midpoint(8 * HEADER_WORDS, committed);
    bytes[middle..middle + 256].fill(0xff);
    fs::write(&path, bytes).expect("written");
}

/// What could not be read of a damaged journal is nowhere else, and stays said however often one asks.
#[test]
fn a_damaged_journal_stays() {
    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    damage(&part.join("journal"));
    for (state, changed) in [("written", true), ("done", false)] {
        let ended = run(&mut finalize(&scratch.out())).with_code(1);
        let report = report(&ended);
        assert_eq!(report["complete"], false, "{ended}");
        assert_eq!(report["changed"], changed, "{ended}");
        let [whole, damaged] = [&report["parts"][0], &report["parts"][1]];
        assert_eq!(whole["problems"], Value::Null, "{ended}");
        assert_eq!(damaged["state"], state, "{ended}");
        let problem = damaged["problems"][0].as_str().unwrap_or_default();
        assert!(problem.contains("left out"), "{ended}");
    }
    assert!(part.join("journal/1.0").exists());
    let left: Vec<_> = fs::read_dir(scratch.out().join("parts"))
        .expect("readable")
        .map(|entry| entry.expect("an entry").path().join("journal"))
        .filter(|journal| journal.exists())
        .collect();
    assert_eq!(left, [part.join("journal")], "the other one is used up");
}

/// A journal may be a link (`NCCL_OTF2_JOURNAL_DIR`): what else is where it leads to is not the job's to remove.
#[test]
fn only_segments_are_removed() {
    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    let elsewhere = scratch.path().join("elsewhere");
    fs::rename(part.join("journal"), &elsewhere).expect("moved");
    fs::create_dir(elsewhere.join("thesis")).expect("made");
    fs::write(elsewhere.join("thesis/1.0"), "chapter 1").expect("written");
    symlink(&elsewhere, part.join("journal")).expect("linked");
    let _ended = run(&mut finalize(&scratch.out()));
    assert!(elsewhere.join("thesis/1.0").exists());

    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    let elsewhere = scratch.path().join("elsewhere");
    fs::rename(part.join("journal"), &elsewhere).expect("moved");
    symlink(&elsewhere, part.join("journal")).expect("linked");
    let _ended = run(&mut finalize(&scratch.out())).with_code(0);
    assert!(elsewhere.join("1.0").exists(), "the process did not make the link");

    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    let elsewhere = scratch.path().join("elsewhere");
    fs::rename(part.join("journal"), &elsewhere).expect("moved");
    symlink(&elsewhere, part.join("journal")).expect("linked");
    lies_outside(&part, &elsewhere, &part);
    let _ended = run(&mut finalize(&scratch.out())).with_code(0);
    assert!(!elsewhere.exists() && !part.join("journal").is_symlink());
}

/// `process.json` of a process that put its journal outside its part (`NCCL_OTF2_JOURNAL_DIR`).
fn lies_outside(part: &Path, journal: &Path, made_as: &Path) {
    let path = |path: &Path| path.to_str().expect("text").to_owned();
    change_process(part, &[("journal", &path(journal)), ("part", &path(made_as))]);
}

fn change_process(part: &Path, fields: &[(&str, &str)]) {
    let path = part.join("process.json");
    let process = fs::read(&path).expect("readable");
    let mut process: Value = serde_json::from_slice(&process).expect("JSON");
    for (name, value) in fields {
        process[name] = (*value).into();
    }
    fs::write(&path, process.to_string()).expect("written");
}

/// A part whose journal is another process's: neither read nor removed.
#[test]
fn a_journal_of_another_process_is_neither_read_nor_removed() {
    let other = Scratch::new();
    let [theirs, _] = job(&other.out());
    let theirs = theirs.join("journal");
    type Plant = fn(&Path, &Path);
    let link: Plant = |theirs, journal| symlink(theirs, journal).expect("linked");
    let copy: Plant = |theirs, journal| {
        fs::create_dir(journal).expect("made");
        for file in fs::read_dir(theirs).expect("readable") {
            let file = file.expect("an entry");
            fs::copy(file.path(), journal.join(file.file_name())).expect("copied");
        }
    };
    for plant in [link, copy] {
        let scratch = Scratch::new();
        let [_, part] = job(&scratch.out());
        let journal = part.join("journal");
        fs::remove_dir_all(&journal).expect("removed");
        plant(&theirs, &journal);
        let ended = run(&mut finalize(&scratch.out())).with_code(1);
        let report = report(&ended);
        assert_eq!(report["archive"]["processes"], 1, "{ended}");
        assert_eq!(report["parts"][1]["state"], "failed", "{ended}");
        let reason = report["parts"][1]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("not of this part's process"), "{ended}");
        assert!(theirs.join("1.0").exists() && journal.join("1.0").exists());
    }
}

/// A copy of a part is written from the original's journal, which stays for the original.
#[test]
fn a_copied_part_leaves_the_journal_to_its_original() {
    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    let elsewhere = scratch.path().join("elsewhere");
    fs::rename(part.join("journal"), &elsewhere).expect("moved");
    symlink(&elsewhere, part.join("journal")).expect("linked");
    lies_outside(&part, &elsewhere, &part);
    let copy = scratch.path().join("copy");
    let copied = std::process::Command::new("cp").arg("-r").args([scratch.out(), copy.clone()]).status();
    assert!(copied.expect("cp").success());
    let ended = run(&mut finalize(&copy)).with_code(0);
    assert_eq!(report(&ended)["archive"]["processes"], 2, "{ended}");
    assert!(elsewhere.join("1.0").exists(), "{ended}");
    let _ended = run(&mut finalize(&scratch.out())).with_code(0);
    assert!(!elsewhere.exists());
}

/// A real process that records until it is killed, its journal outside its part or inside; and its part.
fn recording(scratch: &Scratch, is_outside: bool) -> (Running, PathBuf) {
    let mut command = scratch.script("init c ranks=1 rank=0\nstart g GroupApi ctx=c depth=1\nstop g\nsleep 3600s\n");
    if is_outside {
        command.env("NCCL_OTF2_JOURNAL_DIR", scratch.path().join("journals"));
    }
    let running = start(&mut command);
    scratch.wait_for_recording(1);
    let part = scratch.recording().remove(0);
    assert_eq!(part.join("journal").is_symlink(), is_outside);
    (running, part)
}

#[test]
fn a_journal_stays_while_its_process_runs_and_follows_a_moved_part() {
    for is_outside in [true, false] {
        let scratch = Scratch::new();
        let (running, part) = recording(&scratch, is_outside);
        let journal = fs::canonicalize(part.join("journal")).expect("a journal");
        let ended = run(finalize(&scratch.out()).arg("--include-live"));
        assert!(journal.exists() && part.join("journal").exists(), "{ended}");
        running.kill();
        let moved = scratch.path().join("moved");
        fs::rename(scratch.out(), &moved).expect("moved");
        let ended = run(&mut finalize(&moved)).with_code(0);
        assert_eq!(report(&ended)["archive"]["processes"], 1, "{ended}");
        assert!(!journal.exists(), "{ended}");
        let part = moved.join("parts").join(part.file_name().expect("a name"));
        assert!(!part.join("journal").exists() && !part.join("journal").is_symlink(), "{ended}");
    }
}

/// Where `process.json` is lost, the part's name says whose its journal is.
#[test]
fn a_part_without_process_json_is_known_by_its_name() {
    let scratch = Scratch::new();
    let [first, second] = job(&scratch.out());
    fs::remove_file(second.join("process.json")).expect("removed");
    fs::remove_dir_all(second.join("journal")).expect("removed");
    fs::rename(first.join("journal"), second.join("journal")).expect("moved");
    let ended = run(&mut finalize(&scratch.out())).with_code(2);
    let reason = report(&ended)["parts"][1]["reason"].to_string();
    assert!(reason.contains("not of this part's process"), "{ended}");
    assert!(second.join("journal/1.0").exists(), "{ended}");
}

/// Readers of a part whose journal is another process's say so, and show nothing of it.
#[test]
fn readers_name_a_journal_of_another_process() {
    let scratch = Scratch::new();
    let [first, second] = job(&scratch.out());
    let theirs = scratch.path().join("theirs");
    fs::rename(first.join("journal"), &theirs).expect("moved");
    fs::remove_dir_all(second.join("journal")).expect("removed");
    symlink(&theirs, second.join("journal")).expect("linked");
    fs::remove_dir_all(&first).expect("removed");
    let silent = run(scratch.tool(&["metrics", "--once"]).arg(scratch.out())).with_code(2);
    assert!(silent.stderr.contains("1 process is on other hosts"), "{silent}");
    change_process(&second, &[("boot_id", &journal::host::boot_id())]);
    for arguments in [&["hang"][..], &["print"], &["metrics", "--once"]] {
        let at = if arguments[0] == "print" { second.clone() } else { scratch.out() };
        let ended = run(scratch.tool(arguments).arg(at));
        assert!(format!("{ended}").contains("not of this part's process"), "{arguments:?}: {ended}");
        assert!(!ended.stdout.contains("AllReduce"), "{arguments:?}: {ended}");
    }
}

/// A journal on another node's disk is not one that is not there.
#[test]
fn a_journal_that_is_elsewhere_is_named() {
    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    let journal = part.join("journal");
    fs::remove_dir_all(&journal).expect("removed");
    symlink("/local/journals/of-job", &journal).expect("linked");
    let reason = || {
        let ended = run(&mut finalize(&scratch.out())).with_code(1);
        let report = report(&ended);
        assert_eq!(report["parts"][1]["state"], "failed", "{ended}");
        assert_eq!(report["archive"]["processes"], 1, "{ended}");
        let reason = report["parts"][1]["reason"].as_str();
        reason.unwrap_or_default().to_owned()
    };
    let recorded_on = |host: &str, boot_id: &str| change_process(&part, &[("host", host), ("boot_id", boot_id)]);
    recorded_on("node7", "another");
    let away = reason();
    assert!(away.contains("/local/journals/of-job on node7: run `nccl-otf2 finalize"), "{away}");
    recorded_on("here", &journal::host::boot_id());
    let gone = reason();
    assert!(gone.contains("/local/journals/of-job, which no longer exists"), "{gone}");
}

/// A part that was written of a running process has not all: that stays said when its journal is out of reach.
#[test]
fn a_part_without_its_end_is_not_complete() {
    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    let _written = run(finalize(&scratch.out()).arg("--keep-journal")).with_code(0);
    // As `--include-live` leaves it.
    fs::write(part.join("done"), "provisional\n").expect("written");
    let journal = part.join("journal");
    fs::remove_dir_all(&journal).expect("removed");
    let problem = || {
        let ended = run(&mut finalize(&scratch.out())).with_code(1);
        let report = report(&ended);
        assert_eq!(report["complete"], false, "{ended}");
        let problem = report["parts"][1]["problems"][0].as_str();
        problem.unwrap_or_default().to_owned()
    };
    let gone = problem();
    assert!(gone.contains("while its process was running"), "{gone}");
    assert!(gone.contains("its journal is gone"), "{gone}");
    symlink("/local/journals/of-job", &journal).expect("linked");
    let away = problem();
    assert!(away.contains("/local/journals/of-job"), "{away}");
}
