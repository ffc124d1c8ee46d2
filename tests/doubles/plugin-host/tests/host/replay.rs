//! What a plugin is called with in a replay is what was recorded, in that order, for every version.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::interface::{Kind, Version};
use crate::{plugin, plugin_host, printed};

/// A stream with two threads, all kinds of version 5, and an address that is used twice.
const STREAM: &str = include_str!("stream.jsonl");

/// The callbacks of a stream by time alone (it has no equal times), independent of this crate's own order.
fn expected(stream: &str, version: Version) -> Vec<String> {
    let mut calls: Vec<(f64, String)> = Vec::new();
    let lines: Vec<Value> = stream.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut kinds: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line["recordType"] == "event") {
        kinds.entry(line["eventAddr"].as_str().unwrap()).or_default().push(line);
    }
    let kind_of = |event: &Value| Kind::parse(event["type"].as_str().unwrap()).unwrap();
    for line in &lines {
        let start = line["start"]["ts"].as_f64().unwrap_or(0.0);
        let thread = |moment: &Value| format!("replay_{}", moment["tid"]);
        match (line["recordType"].as_str(), line["func"].as_str()) {
            (Some("event"), _) if version.has_kind(kind_of(line)) => {
                let kind = kind_of(line).name();
                calls.push((start, format!("{} start {kind}", thread(&line["start"]))));
                let stop = line["stop"]["ts"].as_f64().unwrap();
                calls.push((stop, format!("{} stop {kind}", thread(&line["stop"]))));
            }
            (Some("state"), _) => {
                let at = line["ts"].as_f64().unwrap();
                let events = &kinds[line["eventAddr"].as_str().unwrap()];
                let event = events.iter().rfind(|event| event["start"]["ts"].as_f64().unwrap() <= at);
                let kind = kind_of(event.unwrap());
                let number = u32::try_from(line["id"].as_u64().unwrap()).unwrap();
                if version.has_kind(kind) && version.has_state(number) {
                    calls.push((at, format!("{} state {} {number}", thread(line), kind.name())));
                }
            }
            (None, Some("ProfilerInit")) => calls.push((start, format!("{} init", thread(&line["start"])))),
            (None, Some("ProfilerFinalize")) => calls.push((start, format!("{} finalize", thread(&line["start"])))),
            _ => {}
        }
    }
    calls.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    calls.into_iter().map(|(_, call)| call).collect()
}

fn found(echo: &str) -> Vec<String> {
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[1] {
            "start" => {
                let number = u64::from_str_radix(words[2].trim_start_matches("0x"), 16).unwrap();
                let kind = Kind(number).name();
                kinds.insert(words.last().unwrap().to_string(), kind.clone());
                format!("{} start {kind}", words[0])
            }
            "stop" => format!("{} stop {}", words[0], kinds[words[2]]),
            "state" => format!("{} state {} {}", words[0], kinds[words[2]], words[3]),
            verb => format!("{} {verb}", words[0]),
        }
    };
    echo.lines().map(line).collect()
}

fn echo(stream: &Path, version: Version, more: &[&str], mask: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo");
    let output = plugin_host()
        .arg("replay")
        .arg(stream)
        .arg("--plugin")
        .arg(plugin("echo"))
        .args(["--table", &version.number().to_string()])
        .args(more)
        .env("ECHO_OUT", &file)
        .env("ECHO_MASK", mask)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", printed(&output));
    fs::read_to_string(file).unwrap()
}

fn own_stream(folder: &Path) -> PathBuf {
    let file = folder.join("stream.jsonl");
    fs::write(&file, STREAM).unwrap();
    file
}

#[test]
fn every_version_gets_the_recorded_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/streams")).unwrap();
    let recorded = recorded.map(|entry| entry.unwrap().path());
    for path in recorded.chain([own_stream(folder.path())]) {
        let text = fs::read_to_string(&path).unwrap();
        for version in Version::HIGHEST_FIRST {
            let all = echo(&path, version, &[], "ffff");
            assert_eq!(found(&all), expected(&text, version), "{} {version}", path.display());
        }
    }
}

#[test]
fn the_mask_is_respected_or_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let stream = own_stream(folder.path());
    let kinds = |text: &str| {
        let mut kinds: Vec<String> =
            found(text).iter().filter_map(|call| call.split_once(" start ").map(|(_, kind)| kind.to_owned())).collect();
        kinds.sort();
        kinds.dedup();
        kinds.join(" ")
    };
    let proxy = echo(&stream, Version::HIGHEST_FIRST[0], &[], "8");
    assert_eq!(kinds(&proxy), "Coll CollApi Group GroupApi P2p P2pApi ProxyOp");
    assert_eq!(kinds(&echo(&stream, Version::HIGHEST_FIRST[0], &[], "800")), "GroupApi KernelLaunch");
    let all = echo(&stream, Version::HIGHEST_FIRST[0], &["--all-events"], "0");
    assert_eq!(found(&all), expected(STREAM, Version::HIGHEST_FIRST[0]));
}

/// Where times are equal an event starts after its parent and stops before it, whichever line comes first.
#[test]
fn equal_times_nest() {
    let event = |kind: &str, address: &str, parent: &str| {
        let moment = r#"{"ts":5.0,"pid":9,"tid":1}"#;
        format!(
            r#"{{"recordType":"event","type":"{kind}","commId":7,"rank":0,"start":{moment},"stop":{moment},"eventAddr":"{address}","parentObj":"{parent}"}}"#
        )
    };
    let state = r#"{"recordType":"state","eventAddr":"0xb","ts":5.0,"id":19,"tid":1}"#;
    let lines = [event("ProxyOp", "0xb", "0xa"), event("Coll", "0xa", "null"), state.to_owned()];
    let folder = tempfile::tempdir().unwrap();
    let stream = folder.path().join("equal.jsonl");
    fs::write(&stream, lines.join("\n")).unwrap();
    let calls = found(&echo(&stream, Version::HIGHEST_FIRST[0], &[], "ffff"));
    let expected = ["init", "start Coll", "start ProxyOp", "state ProxyOp 19", "stop ProxyOp", "stop Coll", "finalize"];
    assert_eq!(calls, expected.map(|call| format!("replay_1 {call}")));
}

#[test]
fn what_the_plugin_does_wrong_is_told_by_the_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let stream = own_stream(folder.path());
    let echo = plugin("echo");
    for (name, value, plugin, status, says) in [
        ("ECHO_FAIL", "stop", &*echo, 1, "stopEvent returned 3"),
        ("ECHO_UNWRITTEN", "1", &*echo, 1, "left *eHandle unwritten"),
        ("ECHO_MASK", "0", Path::new("/no/such.so"), 2, "/no/such.so"),
    ] {
        let output =
            plugin_host().arg("replay").arg(&stream).arg("--plugin").arg(plugin).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", printed(&output));
        assert!(printed(&output).contains(says), "{}", printed(&output));
    }
}
