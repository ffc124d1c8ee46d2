//! Files of a part that are lost: what is there is used, and what is not is never taken for nothing.

use std::fs;
use std::path::{Path, PathBuf};

use journal::format::SEGMENT_BYTES;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::parts::{finalize, job, report};

/// A written job whose archive is lost, and its second part.
fn written() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    let _written = run(&mut finalize(&scratch.out())).with_code(0);
    fs::remove_file(scratch.out().join("traces.otf2")).expect("removed");
    (scratch, part)
}

/// The archive has the first process only, and every verb reports that, each time.
fn is_missed(scratch: &Scratch, why: &str) {
    for changed in [true, false] {
        let ended = run(&mut finalize(&scratch.out())).with_code(1);
        let report = report(&ended);
        assert_eq!((&report["complete"], &report["changed"]), (&false.into(), &changed.into()), "{ended}");
        assert_eq!(report["parts"][1]["state"], "failed", "{ended}");
        let reason = report["parts"][1]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(why), "{why}: {ended}");
        assert_eq!(report["archive"]["processes"], 1, "{ended}");
    }
    assert!(scratch.archive().properties()["NCCL::PARTS_LEFT_OUT"].contains(why));
    let check = run(scratch.tool(&["check"]).arg(scratch.out()));
    assert!(check.stdout.contains("A08") && check.stdout.contains(why), "{check}");
}

#[test]
fn a_lost_mark_costs_nothing() {
    let (scratch, part) = written();
    fs::remove_file(part.join("done")).expect("removed");
    let ended = run(&mut finalize(&scratch.out())).with_code(0);
    let report = report(&ended);
    assert_eq!(report["parts"][1]["state"], "done", "{ended}");
    assert_eq!(report["archive"]["processes"], 2, "{ended}");
    scratch.archive().validate();
}

/// A part of a process that recorded on is that without its mark, too.
#[test]
fn a_lost_mark_does_not_complete_what_was_written_too_early() {
    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    let _written = run(finalize(&scratch.out()).arg("--keep-journal")).with_code(0);
    let provisional = archive::WriteOptions { provisional: true, ..archive::WriteOptions::default() };
    archive::write_part(&part, &provisional, &()).expect("written");
    fs::remove_dir_all(part.join("journal")).expect("removed");
    fs::remove_file(part.join("done")).expect("removed");
    let ended = run(&mut finalize(&scratch.out())).with_code(1);
    let problem = &report(&ended)["parts"][1]["problems"][0];
    assert!(problem.as_str().is_some_and(|text| text.contains("while its process was running")), "{ended}");
}

#[test]
fn a_lost_mark_with_something_else_costs_the_part() {
    for lost in ["manifest", "traces/0.evt", "traces"] {
        let (scratch, part) = written();
        fs::remove_file(part.join("done")).expect("removed");
        let path = part.join(lost);
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.expect("removed");
        is_missed(&scratch, lost);
    }
}

#[test]
fn a_lost_journal_is_missed() {
    let scratch = Scratch::new();
    let [_, part] = job(&scratch.out());
    fs::remove_dir_all(part.join("journal")).expect("removed");
    is_missed(&scratch, "its journal is lost");
}

fn change_journal(part: &Path, change: impl Fn(&Path)) {
    for file in fs::read_dir(part.join("journal")).expect("a journal") {
        change(&file.expect("a file").path());
    }
}

#[test]
fn a_journal_that_lost_all_its_files_or_their_content() {
    let emptied = |path: &Path| fs::write(path, "").expect("emptied");
    let zeroed = |path: &Path| fs::write(path, vec![0; SEGMENT_BYTES]).expect("zeroed");
    let removed = |path: &Path| fs::remove_file(path).expect("removed");
    for change in [emptied as fn(&Path), zeroed, removed] {
        let scratch = Scratch::new();
        let [_, part] = job(&scratch.out());
        change_journal(&part, change);
        for changed in [true, false] {
            let ended = run(&mut finalize(&scratch.out())).with_code(1);
            let report = report(&ended);
            assert_eq!(report["complete"], false, "{ended}");
            assert_eq!(report["changed"], changed, "{ended}");
            let problem = report["parts"][1]["problems"][0].as_str().unwrap_or_default();
            assert!(problem.contains("no segment"), "{ended}");
            assert!(part.join("journal").exists());
        }
        let check = run(scratch.tool(&["check"]).arg(scratch.out()));
        assert!(check.stdout.contains("A07") && check.stdout.contains("no segment"), "{check}");
    }
}

/// Killed between its directories and its first segment: there is nothing to miss.
#[test]
fn a_process_that_was_killed_before_it_recorded() {
    let nothing: fn(&Path) = |_| {};
    let directory = |part: &Path| fs::create_dir(part.join("journal")).expect("made");
    let file = |part: &Path| {
        fs::create_dir(part.join("journal")).expect("made");
        fs::write(part.join("journal/0.0"), vec![0; SEGMENT_BYTES]).expect("written");
    };
    for begin in [nothing, directory, file] {
        let scratch = Scratch::new();
        let _parts = job(&scratch.out());
        let part = scratch.out().join("parts/host9-99-1");
        fs::create_dir(&part).expect("made");
        begin(&part);
        let ended = run(&mut finalize(&scratch.out())).with_code(0);
        let report = report(&ended);
        assert_eq!((&report["complete"], &report["archive"]["processes"]), (&true.into(), &2.into()), "{ended}");
        assert_eq!(report["parts"][2]["state"], "empty", "{ended}");
    }
}
