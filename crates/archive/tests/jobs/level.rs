//! Archives are rewritten with another level.

use std::path::{Path, PathBuf};

use crate::job::{KEEP, contents, new_job, open, record_two_ranks};
use archive::{ANCHOR, FinalizeOptions, FinalizeSummary, PartState, WriteOptions, finalize, unify, write_part};
use journal::part::ProcessInfo;
use journal::part::environment::Level;

fn wanted(out: &Path, level: Option<Level>) -> FinalizeSummary {
    let options = FinalizeOptions { level, ..FinalizeOptions::default() };
    finalize(out, &options, &()).expect("finalized")
}

/// Two parts, written with their own levels, with their journals.
fn kept(out: &Path, levels: [Level; 2]) -> Vec<PathBuf> {
    let parts = record_two_ranks(out);
    for (part, level) in parts.iter().zip(levels) {
        write_part(part, &WriteOptions { level: Some(level), ..KEEP }, &()).expect("written");
    }
    unify(out, &()).expect("unified");
    parts
}

fn written_now(summary: &FinalizeSummary) -> usize {
    summary.parts.iter().filter(|part| matches!(part.state, PartState::Written(_))).count()
}

#[test]
fn nothing_is_changed_where_one_journal_is_gone() {
    let out: &Path = &new_job();
    let parts = kept(out, [Level::Full; 2]);
    std::fs::remove_dir_all(parts[1].join("journal")).expect("removed");
    let everything = || {
        let anchor = std::fs::read(out.join(ANCHOR)).expect("there");
        (anchor, contents(&parts[0]), contents(&parts[1]))
    };
    let before = everything();
    let options = FinalizeOptions { level: Some(Level::Light), ..FinalizeOptions::default() };
    let error = finalize(out, &options, &()).expect_err("refused").to_string();
    assert!(error.starts_with("1 of the parts"), "{error}");
    for way_out in ["NCCL_OTF2_KEEP_JOURNAL=1", "--keep-journal", "host0-"] {
        assert!(error.contains(way_out), "{error}");
    }
    assert!(before == everything(), "nothing is changed");
}

#[test]
fn an_archive_with_a_part_that_is_gone_keeps_its_level() {
    let out: &Path = &new_job();
    let parts = kept(out, [Level::Full; 2]);
    std::fs::remove_dir_all(&parts[0]).expect("removed");
    let before = contents(&parts[1]);
    let options = FinalizeOptions { level: Some(Level::Light), ..FinalizeOptions::default() };
    let error = finalize(out, &options, &()).expect_err("refused").to_string();
    assert!(error.contains("parts are gone (first host0-"), "{error}");
    assert!(before == contents(&parts[1]), "nothing is changed");
    assert_eq!(wanted(out, None).archive, None, "nothing is to do");
}

#[test]
fn parts_that_are_written_otherwise_are_left_out_or_written_again() {
    let out: &Path = &new_job();
    let parts = kept(out, [Level::Light, Level::Full]);
    let left_out = || {
        let archive = open(out);
        archive.property("NCCL::PARTS_LEFT_OUT").map(str::to_owned)
    };
    let said = left_out().expect("it is said");
    let name = |part: &Path| part.file_name().expect("one").to_string_lossy().into_owned();
    assert!(said.starts_with(&name(&parts[1])) && said.contains("level full"), "{said}");
    let summary = wanted(out, None);
    assert_eq!((written_now(&summary), summary.complete), (1, true));
    assert_eq!(left_out(), None);

    // Without its journal a part stays as it is.
    wanted(out, Some(Level::Full));
    write_part(&parts[1], &WriteOptions { level: Some(Level::Light), ..WriteOptions::default() }, &())
        .expect("written");
    std::fs::remove_dir_all(parts[0].join("journal")).expect("removed");
    let summary = wanted(out, None);
    assert!(!summary.complete, "{:?}", summary.parts);
    let PartState::Failed(reason) = &summary.parts[1].state else {
        panic!("{:?}", summary.parts);
    };
    assert!(reason.contains("level light"), "{reason}");
    assert_eq!(open(out).property("NCCL::LEVEL"), Some("full"));
    assert_eq!(wanted(out, None).archive, None, "nothing is to do");
}

#[test]
fn what_a_part_is_written_with_is_told_by_others_then_by_the_process() {
    let out: &Path = &new_job();
    let parts = record_two_ranks(out);
    let path = parts[0].join("process.json");
    let json = std::fs::read(&path).expect("there");
    let mut process: ProcessInfo = serde_json::from_slice(&json).expect("it is ours");
    process.level = Level::Standard;
    let json = serde_json::to_vec(&process).expect("plain data");
    std::fs::write(&path, json).expect("written");
    let options = WriteOptions::default();
    write_part(&parts[0], &options, &()).expect("written");
    let summary = wanted(out, None);
    assert_eq!(written_now(&summary), 1);
    assert_eq!(open(out).property("NCCL::LEVEL"), Some("standard"));
}

#[test]
fn a_journal_that_was_half_removed_replaces_nothing() {
    let out: &Path = &new_job();
    let parts = kept(out, [Level::Full; 2]);
    let files = std::fs::read_dir(parts[0].join("journal")).expect("there");
    let mut segments: Vec<PathBuf> = files.map(|file| file.expect("readable").path()).collect();
    segments.sort();
    std::fs::remove_file(segments.last().expect("some")).expect("removed");
    let before = contents(&parts[0]);
    let summary = wanted(out, Some(Level::Light));
    let PartState::Failed(reason) = &summary.parts[0].state else {
        panic!("{:?}", summary.parts);
    };
    assert!(reason.contains("were written from it before"), "{reason}");
    assert!(before == contents(&parts[0]));
    // The archive of both parts stays.
    assert_eq!(open(out).property("NCCL::LEVEL"), Some("full"));
}
