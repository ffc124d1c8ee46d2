//! Journals become parts, parts become an archive, and the archive states what happened: read back by our reader and by
//! otf2-print.
use std::path::Path;

use crate::job::{new_job, record_two_ranks, unified, write};
use crate::read::{print, text};
use archive::{FinalizeOptions, PartState, WriteOptions, finalize, write_part};
use journal::testing::{Process, ProcessIdentity};
use nccl_events::Kind;
use otf2::AttributeValue;
use serde_json::Value;

/// The clock of a GPU is stated on the locations that show its times, and on no others.
#[test]
fn locations_of_a_gpu_state_its_clock() {
    let out: &Path = &new_job();
    record_two_ranks(out).iter().for_each(|part| write(part));
    let archive = unified(out);
    let definitions = archive.definitions().expect("definitions");
    let listed = archive.property("NCCL::GPU_CLOCK::LIST").expect("a list");
    for location in definitions.locations.values() {
        let mut properties = location.properties.iter().map(|(name, value)| (text(&definitions, *name), value));
        let residual = properties.find(|(name, _)| *name == "NCCL::GPU_CLOCK::RESIDUAL_NS");
        assert_eq!(residual.is_some(), text(&definitions, location.name).starts_with("NCCL "));
        if let Some((_, AttributeValue::U64(residual_ns))) = residual {
            // Three operations on two channels: a launch, and two callbacks each.
            let clock = format!("BOUNDED, residual {residual_ns} ns");
            assert!(listed.contains(&clock) && listed.contains("bounds 6 + 12"), "no {clock} in {listed}");
        }
    }
}

/// Two processes claim the same rank of the same communicator: a job was restarted in its directory, or NCCL gave an id
/// to several communicators. The later one's records go to a communicator that it is a member of, and the archive
/// reports the conflict.
#[test]
fn a_rank_that_was_claimed_before_has_a_communicator_of_its_own() {
    let out: &Path = &new_job();
    let mut parts = record_two_ranks(out);
    let again = ProcessIdentity { rank: 0, ranks: 2, in_environment: false };
    let mut process = Process::begin(out, again);
    process.all_reduce(0);
    parts.push(process.end());
    parts.iter().for_each(|part| write(part));
    let archive = unified(out);
    let definitions = archive.definitions().expect("definitions");
    let names: Vec<&str> =
        definitions.comms.values().map(|comm| definitions.string(comm.name).expect("defined")).collect();
    let part = parts[2].file_name().expect("a name").to_string_lossy();
    assert_eq!(names, ["comm 1 (2)", format!("{part} 0xabcdef0123456789 (2)").as_str()]);
    let archive = whole_plugin::archive::Archive::open(out);
    archive.sound();
    assert_eq!(archive.properties()["NCCL::RANKS_CLAIMED_TWICE"], "1");
}

/// A user who copies a part beside it has not run another process. Of an earlier copy, the archive takes the part that
/// has more records, whatever the names.
#[test]
fn a_copy_of_a_part_is_left_out_by_name() {
    for (prefix, suffix) in [("", ".bak"), ("a-copy-of-", "")] {
        let out: &Path = &new_job();
        let mut process = Process::begin(out, ProcessIdentity { rank: 0, ranks: 1, in_environment: true });
        process.all_reduce(0);
        let original = journal::part::part_directories(out).expect("parts").remove(0);
        let name = format!("{prefix}{}{suffix}", original.file_name().expect("a name").display());
        let mut copy = std::process::Command::new("cp");
        copy.arg("-r").args([&original, &original.with_file_name(&name)]);
        assert!(copy.status().expect("cp").success());
        process.all_reduce(1);
        let _part = process.end();
        let options = FinalizeOptions { include_live: true, ..FinalizeOptions::default() };
        let summary = finalize(out, &options, &()).expect("finalized").archive.expect("an archive");
        assert_eq!(summary.parts, [original.file_name().expect("a name").to_string_lossy()], "{summary:?}");
        let starts = format!("{name}: is a copy of ");
        assert!(matches!(&*summary.left_out, [one] if one.starts_with(&starts)), "{summary:?}");
        let archive = whole_plugin::archive::Archive::open(out);
        archive.sound();
        assert!(!archive.properties().contains_key("NCCL::RANKS_CLAIMED_TWICE"));
        assert_eq!(archive.count("COLL::SEEN"), 2);
        // Once the copy is away, nothing says that it is there.
        std::fs::remove_dir_all(original.with_file_name(&name)).expect("removed");
        let again = finalize(out, &options, &()).expect("finalized").archive.expect("an archive");
        assert!(again.left_out.is_empty(), "{again:?}");
    }
}

/// A part with a torn `process.json` is known as the process of its copy, and the archive with one of them is current.
#[test]
fn a_torn_part_and_its_copy_are_one_process() {
    for is_original_torn in [true, false] {
        let out: &Path = &new_job();
        let original = record_two_ranks(out).remove(0);
        let copy = original.with_file_name("copy");
        let copied = std::process::Command::new("cp").arg("-r").args([&original, &copy]).status();
        assert!(copied.expect("cp").success());
        let torn = if is_original_torn { &original } else { &copy };
        let description = std::fs::read(torn.join("process.json")).expect("readable");
        std::fs::write(torn.join("process.json"), &description[..description.len() / 2]).expect("written");
        let options = FinalizeOptions { keep_journal: true, ..FinalizeOptions::default() };
        let made = finalize(out, &options, &()).expect("finalized").archive.expect("an archive");
        let starts = format!("{}: is a copy of ", torn.file_name().expect("a name").display());
        assert!(matches!(&*made.left_out, [one] if one.starts_with(&starts)), "{made:?}");
        assert_eq!(made.parts.len(), 2, "{made:?}");
        let again = finalize(out, &options, &()).expect("finalized").archive;
        assert_eq!(again, None, "nothing changed");
        // Of two copies, the archive names the same original.
        std::fs::rename(&original, original.with_file_name("z")).expect("renamed");
        let copied = std::process::Command::new("cp").arg("-r").args([&copy, &copy.with_file_name("copy-2")]).status();
        assert!(copied.expect("cp").success());
        let made = finalize(out, &options, &()).expect("finalized").archive.expect("an archive");
        let whole = if is_original_torn { "copy" } else { "z" };
        let names_whole = |line: &String| line.contains(&format!(": is a copy of {whole}, "));
        assert!(made.left_out.len() == 2 && made.left_out.iter().all(names_whole), "{made:?}");
    }
}

#[test]
fn a_deadline_leaves_the_part_as_it_was() {
    let out: &Path = &new_job();
    let part = record_two_ranks(out).remove(0);
    let options = WriteOptions { deadline: Some(std::time::Instant::now()), ..WriteOptions::default() };
    let error = write_part(&part, &options, &()).expect_err("no time");
    assert!(error.to_string().contains("nccl-otf2 finalize"), "{error}");
    let left = std::fs::read_dir(&part).expect("readable").count();
    assert_eq!(left, 2, "process.json, journal");
}

#[test]
fn what_was_written_of_a_running_process_is_written_again() {
    let out: &Path = &new_job();
    let who = ProcessIdentity { rank: 0, ranks: 1, in_environment: true };
    let mut process = Process::begin(out, who);
    process.all_reduce(0);
    let provisional = WriteOptions { provisional: true, ..WriteOptions::default() };
    let first = write_part(&process.part, &provisional, &()).expect("written while it runs");
    assert_eq!(first.counts.kinds.get(Kind::Coll).seen, 1);
    process.all_reduce(1);
    let _part = process.end();
    let summary = finalize(out, &FinalizeOptions::default(), &()).expect("finalized");
    let PartState::Written(part) = &summary.parts[0].state else {
        panic!("{:?}", summary.parts);
    };
    assert_eq!(part.counts.kinds.get(Kind::Coll).seen, 2);
}

/// Changes the manifest of a written part.
fn change_manifest(part: &Path, change: impl FnOnce(&mut Value)) {
    let path = part.join("manifest");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).expect("readable")).expect("JSON");
    change(&mut manifest);
    std::fs::write(&path, manifest.to_string()).expect("written");
}

/// What an earlier version wrote is written anew from its journal; what a later one wrote is left to it.
#[test]
fn a_part_of_another_version_is_written_anew_if_it_is_older() {
    let out: &Path = &new_job();
    let parts = record_two_ranks(out);
    let options = FinalizeOptions { keep_journal: true, ..FinalizeOptions::default() };
    let _made = finalize(out, &options, &()).expect("finalized");
    for (format, is_written) in [(3, true), (5, false)] {
        change_manifest(&parts[1], |manifest| manifest["format"] = Value::from(format));
        let summary = finalize(out, &options, &()).expect("finalized");
        let state = &summary.parts[1].state;
        assert_eq!((matches!(state, PartState::Written(_)), summary.complete), (is_written, is_written), "{state:?}");
    }
}

/// Chunks are the smallest that libotf2 takes, unless a definition needs more.
#[test]
fn chunks_are_as_large_as_definitions_need() {
    let text = |length| vec!["x".repeat(length)];
    let numbered = |rank| (0..80_000).map(|number| format!("rank {rank} text {number}")).collect::<Vec<String>>();
    for (chunk_bytes, strings) in [
        (256 << 10, [text(1), text(2)]),
        (512 << 10, [text(1), text(300 << 10)]),
        // The numbers of the second part's strings are others in the archive: its local definitions map them.
        (512 << 10, [0, 1].map(numbered)),
    ] {
        let out: &Path = &new_job();
        for (part, strings) in record_two_ranks(out).iter().zip(strings) {
            write(part);
            change_manifest(part, |manifest| {
                let all = manifest["strings"].as_array_mut().expect("a list");
                all.extend(strings.into_iter().map(Value::from));
            });
        }
        let archive = unified(out);
        assert_eq!((archive.event_chunk_bytes(), archive.definitions_chunk_bytes()), (256 << 10, chunk_bytes));
        assert!(print(out).contains("ncclAllReduce"));
    }
}
