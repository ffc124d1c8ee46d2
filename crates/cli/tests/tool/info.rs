//! `nccl-otf2 info`.

use std::fs;
use std::process::Stdio;

use serde_json::json;

use super::fixture::Fixture;
use super::support::{Scratch, ToolOutput, text};

#[test]
fn people_see_operations_communicators_and_completeness() {
    let scratch = Scratch::new();
    Fixture::sound().write(scratch.path());
    let stdout = scratch.ends(["info", "trace"]).with_code(0).stdout;
    let row = |first: &str| {
        let line = stdout.lines().find(|line| line.trim().starts_with(first));
        let line = line.unwrap_or_else(|| panic!("no {first} in\n{stdout}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("NCCL"), "NCCL 2.28.9");
    assert_eq!(row("ncclAllReduce"), "ncclAllReduce 4 KiB 2 80 ns 90 ns 100 ns 180 ns – kernelch");
    assert_eq!(row("ncclSend"), "ncclSend 1000 B 1 50 ns 50 ns 50 ns 50 ns – proxy");
    assert_eq!(row("world"), "world – 2 2 4 1 1000 B");
    assert_eq!(row("coll"), "coll 4 4 0");
    // The JSON report has the same values.
    let report = scratch.ends(["info", "trace", "--json"]).json();
    for (place, value) in [
        ("/communicators/0/collectives", json!({ "Allreduce": 2, "Bcast": 2 })),
        ("/operations/0/duration_ns/total", json!(180)),
        ("/operations/0/timing/kernelch", json!(2)),
        ("/messages/0", json!({ "communicator": "world", "from": 0, "to": 1, "count": 1, "bytes": 1000 })),
        ("/completeness/kinds/coll/seen", json!(4)),
    ] {
        assert_eq!(report.pointer(place), Some(&value), "{place}");
    }
    let schema = scratch.ends(["info", "--json-schema"]).json();
    for name in report.as_object().expect("an object").keys() {
        assert!(schema["properties"][name].is_object(), "{name} is not in the schema");
    }
}

/// A recording that covers only part of the job states so prominently.
#[test]
fn what_of_the_job_was_recorded() {
    let scratch = Scratch::new();
    let head = |fixture: &Fixture, name: &str| {
        let ended = ToolOutput::run(scratch.tool().arg("info").arg(fixture.write(&scratch.join(name))));
        ended.stdout.split("\n\n").next().unwrap_or_default().to_owned()
    };
    let plain = head(&Fixture::sound(), "plain");
    for name in ["flight", "switched", "PXN"] {
        assert!(!plain.contains(&format!("  {name}  ")), "{plain}");
    }

    let mut fixture = Fixture::sound();
    let beginning = scratch.ends(["info", "plain/trace", "--json"]).json();
    let start_ns = beginning["start_ns"].as_u64().expect("a time");
    fixture.property("NCCL::FLIGHT::PROCESSES", "2");
    fixture.property("NCCL::FLIGHT::COMPLETE_FROM", &(start_ns + 1_500_000_000).to_string());
    fixture.property("NCCL::MEASUREMENT::LIST", "5: host:1: off\n9: host:1: on");
    fixture.property("NCCL::PXN::TRANSFERS", "12");
    fixture.property("NCCL::PXN::COUNTED", "10");
    fixture.property("NCCL::COMMAND", "train --rank 0\ntrain --rank 1\ntrain --rank 2");
    let head = head(&fixture, "parts");
    for line in [
        "  flight    the end of 2 processes; complete from 1.500 s after the beginning on",
        "  switched  recording was switched off or on 2 times",
        "  PXN       12 transfers done for ranks of other processes; only 10 of them count",
        "  command   train --rank 0 (and 2 others: --json has all)",
    ] {
        assert!(head.contains(line), "{line}\n{head}");
    }
}

#[test]
fn nobody_reading_on_is_no_failure() {
    let scratch = Scratch::new();
    let trace = Fixture::sound().write(scratch.path());
    for verb in ["info", "check"] {
        let mut tool = std::process::Command::new(scratch.tool().get_program());
        let tool = tool.args([verb, "--json"]).arg(&trace).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = tool.spawn().expect("started");
        // Closes the pipe before anything is written to it.
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ended");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "");
    }
}

#[test]
fn what_is_no_archive_is_an_error() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.join("empty")).expect("made");
    fs::create_dir_all(scratch.join("recorded/parts/host-1-2")).expect("made");
    fs::create_dir_all(scratch.join("nothing/parts")).expect("made");
    fs::write(scratch.join("notes.txt"), "").expect("written");
    fs::write(scratch.join("wrong.otf2"), "not an anchor").expect("written");
    for (path, word) in [
        ("missing", "no such file"),
        ("empty", "no archive here"),
        ("recorded", "nccl-otf2 finalize recorded"),
        ("nothing", "no process recorded anything"),
        ("notes.txt", ".otf2"),
        ("wrong.otf2", "wrong.otf2"),
    ] {
        for verb in ["info", "check"] {
            scratch.ends([verb, path]).with_code(2).assert_prints(word);
        }
    }
}

#[test]
fn the_version_names_all_that_shapes_archives() {
    let ended = Scratch::new().ends(["--version"]);
    ["nccl-otf2 0.", "OTF2 3.", "journal format "].iter().for_each(|word| ended.assert_prints(word));
}

#[test]
fn a_version_that_cannot_be_printed_is_an_error() {
    let full = fs::File::options().write(true).open("/dev/full").expect("opened");
    let mut tool = std::process::Command::new(Scratch::new().tool().get_program());
    let ended = tool.arg("--version").stdout(full).output().expect("the tool runs");
    assert_eq!(ended.status.code(), Some(2));
    let said = text(&ended.stderr);
    assert!(said.contains("cannot write to stdout: No space left on device"), "{said}");
}
