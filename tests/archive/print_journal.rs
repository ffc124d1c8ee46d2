//! `nccl-otf2 print --json` makes a stream of a journal that replays to the same journal.

use std::collections::BTreeMap;
use std::path::Path;

use crate::readers::{EVERYTHING, everything};
use serde_json::Value;
use whole_plugin::kinds::{KINDS, NEWEST, kinds_of_table};
use whole_plugin::machine::{four_gpu_stream, two_process_streams};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// A release for each table, from version 1; the last has every kind.
const RELEASES: [&str; NEWEST as usize] = ["22304", "22501", "22607", "22707", "22809", "22907", "23103"];

/// The stream of the one process in a job's directory.
fn print(scratch: &Scratch, out: &Path) -> String {
    run(scratch.tool(&["print", "--json"]).arg(out)).with_code(0).stdout
}

/// Replays a stream through a table, and prints the recording.
fn replay_and_print(scratch: &Scratch, stream: &Path, table: u32, out: &str) -> String {
    let out = scratch.path().join(out);
    let mut command = scratch.replay(&[stream.to_owned()]);
    command.args(["--all-events", "--nccl", RELEASES[table as usize - 1], "--table", &table.to_string()]);
    command.env("NCCL_OTF2_DIR", &out);
    command.env("NCCL_OTF2_KEEP_JOURNAL", "1");
    let _replayed = run(&mut command).with_code(0);
    print(scratch, &out.join("parts"))
}

/// Takes the times out of a stream, and names processes, threads and handles by the order of their first sight.
#[derive(Default)]
struct Normaliser {
    seen: BTreeMap<(&'static str, String), usize>,
}

impl Normaliser {
    fn stream(text: &str) -> Vec<Value> {
        let mut normaliser = Self::default();
        let lines = text.lines().filter_map(|line| {
            let mut value: Value = serde_json::from_str(line).expect("JSON");
            // What was found out about GPUs is no callback, and not replayed.
            if value["recordType"] == "gpu" {
                return None;
            }
            normaliser.value(&mut value);
            Some(value)
        });
        lines.collect()
    }

    fn value(&mut self, value: &mut Value) {
        let Some(fields) = value.as_object_mut() else {
            return;
        };
        for time in ["ts", "duration"] {
            fields.remove(time);
        }
        for (name, class) in [
            ("pid", "pid"),
            ("eventPid", "pid"),
            ("tid", "tid"),
            ("eventAddr", "handle"),
            ("parentObj", "handle"),
            ("parentGroup", "handle"),
            ("ctx", "context"),
        ] {
            if let Some(field) = fields.get_mut(name).filter(|field| **field != "null") {
                let count = self.seen.len();
                let number = self.seen.entry((class, field.to_string())).or_insert(count);
                *field = format!("{class} {number}").into();
            }
        }
        for (_, field) in fields.iter_mut() {
            self.value(field);
        }
    }
}

/// What is recorded of a printed stream prints the same.
fn comes_round(scratch: &Scratch, first: &str) {
    let stream = scratch.path().join("first.jsonl");
    std::fs::write(&stream, first).expect("write the stream");
    let second = replay_and_print(scratch, &stream, NEWEST, "second");
    let (first, second) = (Normaliser::stream(first), Normaliser::stream(&second));
    for (number, (one, other)) in first.iter().zip(&second).enumerate() {
        assert_eq!(one, other, "line {}", number + 1);
    }
    assert_eq!(first.len(), second.len());
}

/// The lines by what they are.
fn kinds(stream: &str) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for line in Normaliser::stream(stream) {
        let name = ["type", "name"].iter().find_map(|name| line[*name].as_str());
        *kinds.entry(name.expect("a name").to_owned()).or_default() += 1;
    }
    kinds
}

#[test]
fn every_kind_comes_round() {
    let scratch = everything();
    let first = print(&scratch, &scratch.out().join("parts"));
    let kinds = kinds(&first);
    for kind in KINDS {
        assert!(kinds.contains_key(&format!("ncclProfile{kind}")), "{kind}");
    }
    for state in EVERYTHING.lines().filter_map(|line| line.strip_prefix("state ")?.split(' ').nth(1)) {
        assert!(kinds.contains_key(state), "{state}");
    }
    assert_eq!(kinds["0x10000"], 1);
    assert_eq!(kinds["ProfilerLifecycle"], 4);
    for said in [
        r#""commName":"train\"ing""#,
        r#""nnodes":3"#,
        r#""net":{"type":"socket","descriptor":5,"operation":1,"bytes":99}"#,
        r#""pTimer":18000000000000000009"#,
        r#""eventPid":4242"#,
        r#""noArgs":true"#,
    ] {
        assert!(first.contains(said), "{said} in\n{first}");
    }
    comes_round(&scratch, &first);
}

/// What the plugin was passed and what it printed: the details of the events, whatever their order, as a table passes
/// them. The replaying host has its own reading of NCCL's structures.
fn details(stream: &str, table: u32) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for line in stream.lines() {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        let kind = line["type"].as_str().unwrap_or_default().trim_start_matches("ncclProfile").to_owned();
        let is_known = kinds_of_table(table).contains(&kind.as_str()) || kind == "0x10000" && table > 4;
        // Version 1 has numbers in the place of names, and none that says that there is no name.
        let is_unnamed = table == 1 && line["details"]["func"].is_string() && line["details"]["count"] == 1;
        if line["recordType"] != "event" || !is_known || is_unnamed {
            continue;
        }
        if let Some(details) = line["details"].as_object_mut() {
            let version_7_fields = ["userTag", "kernelVariant", "isSymmetric"];
            let is_new = |name: &str| table < 7 && version_7_fields.contains(&name);
            details.retain(|name, _| !["parentGroup", "eventPid"].contains(&name.as_str()) && !is_new(name));
            match kind.as_str() {
                "KernelCh" if table < 4 => drop(details.insert("pTimer".to_owned(), 0.into())),
                "P2p" if table < 4 => drop(details.insert("channels".to_owned(), 0.into())),
                _ => {}
            }
        }
        // Up to table 3 `init` does not say which communicator and rank it is.
        let who = if table < 4 { String::new() } else { format!("{} {}", line["commId"], line["rank"]) };
        *found.entry(format!("{kind} {who} {}", line["details"])).or_default() += 1;
    }
    found
}

#[test]
fn each_table_passes_on_all_that_it_has() {
    let scratch = everything();
    let first = print(&scratch, &scratch.out().join("parts"));
    let stream = scratch.path().join("first.jsonl");
    std::fs::write(&stream, &first).expect("write the stream");
    for table in 1..=NEWEST {
        let printed = replay_and_print(&scratch, &stream, table, &format!("table{table}"));
        assert_eq!(details(&printed, table), details(&first, table), "table {table}");
    }
}

#[test]
fn recorded_streams_come_round() {
    for recorded in two_process_streams().into_iter().chain(four_gpu_stream()) {
        let scratch = Scratch::new();
        let first = replay_and_print(&scratch, &recorded, NEWEST, "first");
        let passed = std::fs::read_to_string(&recorded).expect("read the recording");
        assert_eq!(details(&passed, NEWEST), details(&first, NEWEST), "{}", recorded.display());
        comes_round(&scratch, &first);
    }
}

#[test]
fn what_is_not_selected_stays_away() {
    let scratch = everything();
    let printed = |options: &[&str]| {
        let mut command = scratch.tool(&["print"]);
        let text = run(command.arg(scratch.out().join("parts")).args(options)).with_code(0).stdout;
        let lines = text.lines().skip(1).filter(|line| !line.contains(" init "));
        let lines = lines.filter(|line| !line.ends_with(" finalize") && !line.contains(" GPU "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let has = |lines: &[String], words: &str| lines.iter().any(|line| line.contains(words));
    let all = printed(&[]);
    assert!(has(&all, "KernelPhase channel=1 phase=2 phaseName=prims pTimer=5"), "{all:#?}");
    assert!(has(&all, "   no end  "), "{all:#?}");
    let steps = printed(&["--kind", "proxystep"]);
    assert_eq!(steps.len(), 4, "the step and its states: {steps:#?}");
    let lines_d = printed(&["--comm", "0xffffffffffffffff"]);
    assert!(has(&lines_d, "CeBatch") && !has(&lines_d, "ProxyOp"), "{lines_d:#?}");
    assert_eq!(lines_d, printed(&["--rank", "0"]));
    assert_eq!(printed(&["--comm", "train\"ing"]), printed(&["--rank", "2"]));
    // Only events without an end last so long.
    let late = printed(&["--from", "1000s", "--kind", "ProxyOp,Coll,Group"]);
    assert_eq!(late.len(), 2, "{late:#?}");
    let early = printed(&["--to", "0ns"]);
    assert!(early.is_empty(), "{early:#?}");
    assert!(printed(&["--limit", "2"]).is_empty(), "the two lines are the inits");

    for (options, words) in [
        (["--comm", "nobody"], "no communicator named nobody: the journal has "),
        (["--rank", "77"], "no rank 77: the journal has ranks "),
    ] {
        let said = run(scratch.tool(&["print"]).arg(scratch.out().join("parts")).args(options)).with_code(2).stderr;
        assert!(said.contains(words), "{said}");
    }
    let said = run(scratch.tool(&["print", "--kind", "Moon"]).arg(scratch.out())).with_code(2).stderr;
    assert!(said.contains("Moon") && said.contains("KernelPhase"), "{said}");
}
