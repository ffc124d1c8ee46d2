//! `export --format xplane`, as TensorBoard's Trace Viewer shows it, against the archive.

use std::path::{Path, PathBuf};

use serde_json::Value;
use whole_plugin::jobs::{SharedJob, jobs};
use whole_plugin::machine::tensorflow;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use super::archive::{Lines, RegionTotals, lines_of};
use super::script;
use whole_plugin::regions::first_of_lane;

/// The devices that the viewer shows, and what their lines have together.
fn shown(python: &Path, file: &Path) -> (Vec<String>, Lines) {
    let devices = script(python, "trace_viewer.py", &[file.to_owned()]);
    let devices = devices.as_object().expect("devices");
    let mut lines = Lines::new();
    for (line, seen) in devices.values().flat_map(|lines| lines.as_object().expect("lines")) {
        let number = |name: &str| seen[name].as_u64().expect("a number");
        let all: &mut RegionTotals = lines.entry(first_of_lane(line).to_owned()).or_default();
        all.events += number("events");
        all.time_ns += number("time_ns");
        all.bytes += number("bytes");
    }
    (devices.keys().cloned().collect(), lines)
}

fn export(scratch: &Scratch, options: &[&str], name: &str) -> (PathBuf, Value) {
    let mut tool = scratch.tool(&["export", "--format", "xplane", "out", "--json", "-o", name]);
    (scratch.path().join(name), serde_json::from_str(&run(tool.args(options)).with_code(0).stdout).expect("JSON"))
}

/// The viewer shows what the archive has.
fn same(python: &Path, scratch: &Scratch, ranks: &[&str]) {
    let (file, said) = export(scratch, &[], "all.xplane.pb");
    let (devices, lines) = shown(python, &file);
    let expected = lines_of(scratch);
    assert_eq!(lines, expected);
    assert!(expected.values().any(|seen| seen.bytes > 0));
    let events: u64 = expected.values().map(|seen| seen.events).sum();
    assert_eq!((&said["format"], &said["events"]), (&1.into(), &events.into()));
    assert_eq!(devices, ranks.iter().map(|ranks| format!("/device:CUSTOM:NCCL {ranks}")).collect::<Vec<String>>());

    // One of the ranks.
    let (file, _) = export(scratch, &["--rank", "0"], "one.xplane.pb");
    let (_, by_rank) = shown(python, &file);
    let is_member = |name: &&String| name.contains(" rank ") || name.starts_with("net ");
    let members: Vec<&String> = by_rank.keys().filter(is_member).collect();
    let is_of_rank =
        |name: &&String| [" rank 0 ", " r0 "].iter().any(|own| name.contains(own)) || name.ends_with(" rank 0");
    assert!(!members.is_empty() && members.iter().all(is_of_rank), "{members:?}");
    // Both processes have a line of this name.
    let is_shared = |name: &str| name == "NVTX app";
    assert!(by_rank.iter().all(|(line, seen)| is_shared(line) || expected[line] == *seen), "{by_rank:?}");
}

#[test]
fn the_viewer_shows_what_the_archive_has() {
    let Some(python) = tensorflow() else {
        return;
    };
    let mut all: Vec<String> = (0..96).map(|rank| format!("rank {rank}")).collect();
    all.sort();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    for (which, scratch) in jobs() {
        match which {
            SharedJob::TwoProcesses | SharedJob::Ranges => same(&python, &scratch, &all[..2]),
            SharedJob::FourGpus => {
                same(&python, &scratch, &["rank 0", "rank 1", "rank 2", "rank 3", "ranks 0, 1, 2, 3"])
            }
            SharedJob::Demo => {
                same(&python, &scratch, &["rank 0", "rank 1", "rank 2", "rank 3", "ranks 0, 1", "ranks 2, 3"]);
            }
            SharedJob::Synthetic => same(&python, &scratch, &all),
        }
    }
}

#[test]
fn a_name_that_tensorboard_does_not_find_is_refused() {
    let scratch = Scratch::new();
    let mut tool = scratch.tool(&["export", "--format", "xplane", "out", "-o", "trace.pb"]);
    let ended = run(&mut tool).with_code(2);
    assert!(ended.stderr.contains("-o trace.pb.xplane.pb"), "{ended}");
    let mut tool = scratch.tool(&["export", "--format", "perfetto", "out", "--into", "a.xplane.pb", "-o", "b"]);
    let ended = run(&mut tool).with_code(2);
    assert!(ended.stderr.contains("--into: only for --format kineto and xplane"), "{ended}");
}
