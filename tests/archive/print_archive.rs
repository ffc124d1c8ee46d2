//! What `nccl-otf2 print` shows of an archive: the records that are wanted, in the order of time, for people and for
//! programs. That nothing of a record is wrong or missing is for `readers.rs`.

use std::path::{Path, PathBuf};

use serde_json::Value;
use whole_plugin::machine::two_process_streams;
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::{built, scratch::Scratch};

/// Two communicators in one process; the sends go to a rank that nobody recorded.
const TWO_COMMUNICATORS: &str = r#"
init c id=0x1234 name=train"ing ranks=2 rank=1
init d id=0xabc ranks=1 rank=0
start ga GroupApi ctx=c depth=2
start ca CollApi ctx=c parent=ga func=AllReduce count=7 datatype=ncclFloat32
stop ca
stop ga
start co Coll ctx=c parent=ca rank=1 sequence=0 func=AllReduce count=7 datatype=ncclFloat32 channels=1
start op ProxyOp ctx=c parent=co rank=1 channel=1 peer=0 steps=1 chunk_bytes=4096 is_send=1
state op ProxyOpInProgress
start st ProxyStep ctx=c parent=op rank=1 step=0
state st ProxyStepSendGPUWait
state st ProxyStepSendWait bytes=28
stop st
stop op
stop co
start ce Coll ctx=d rank=0 sequence=0 func=Broadcast count=3 root=0 datatype=ncclInt8 channels=1
stop ce
finalize d
finalize c
"#;

fn recorded() -> Scratch {
    let scratch = Scratch::new();
    let mut script = scratch.script(TWO_COMMUNICATORS);
    script.args(["--nccl", "22809"]);
    script.env("NCCL_OTF2_KEEP_JOURNAL", "1");
    let _recorded = run(&mut script).with_code(0);
    let _written = scratch.finalize().with_code(0);
    scratch
}

fn print(scratch: &Scratch, path: &Path, options: &[&str]) -> FinishedProcess {
    run(scratch.tool(&["print"]).arg(path).args(options))
}

/// The lines below the heads of the columns.
fn lines(scratch: &Scratch, options: &[&str]) -> Vec<String> {
    let printed = print(scratch, &scratch.out(), options).with_code(0).stdout;
    let mut lines = printed.lines().map(str::to_owned);
    let head = lines.next().expect("the heads of columns");
    assert!(head.contains("time [s]") && head.ends_with("event"), "{head}");
    lines.collect()
}

fn records(scratch: &Scratch, path: &Path, options: &[&str]) -> Vec<Value> {
    let mut all = vec!["--json"];
    all.extend(options);
    let printed = print(scratch, path, &all).with_code(0).stdout;
    printed.lines().map(serde_json::from_str).collect::<Result<_, _>>().expect("JSON Lines")
}

fn times(records: &[Value]) -> Vec<u64> {
    records.iter().map(|record| record["time"].as_u64()).collect::<Option<_>>().expect("times")
}

#[test]
fn records_come_in_the_order_of_time_over_all_locations() {
    let scratch = recorded();
    let records = records(&scratch, &scratch.out(), &[]);
    assert!(times(&records).is_sorted());
    let locations: std::collections::BTreeSet<&str> =
        records.iter().filter_map(|record| record["location"].as_str()).collect();
    // A thread, which is one of the proxy as well, and two communicators.
    assert_eq!(locations.len(), 4, "{locations:?}");
    let anchor_output = print(&scratch, &scratch.out().join("traces.otf2"), &["--json"]).with_code(0);
    assert_eq!(anchor_output.stdout.lines().count(), records.len());
    assert_eq!(lines(&scratch, &[]).len(), records.len());
}

#[test]
fn regions_nest_and_say_how_long_they_took() {
    let scratch = recorded();
    let printed = lines(&scratch, &["--kind", "GroupApi,CollApi"]);
    let what = |line: &String| {
        let at = line.find("enter ").or_else(|| line.find("leave "))?;
        let (before, event) = line.split_at(at);
        let name = event.split(" nccl.").next()?;
        Some((before.chars().count(), name.to_owned()))
    };
    let shown: Vec<(usize, String)> = printed.iter().filter_map(what).collect();
    let names: Vec<&str> = shown.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(
        names,
        ["enter NCCL group", "enter ncclAllReduce", "leave ncclAllReduce", "leave NCCL group"],
        "{printed:#?}"
    );
    let columns: Vec<usize> = shown.iter().map(|(column, _)| *column).collect();
    let outer = columns[0];
    assert_eq!(columns, [outer, outer + 2, outer + 2, outer]);
    for line in &printed {
        let has_duration = line.contains(" ns  ") || line.contains(" µs  ") || line.contains(" ms  ");
        assert_eq!(has_duration, line.contains("leave "), "{line}");
    }
}

#[test]
fn only_what_is_wanted_is_printed() {
    let scratch = recorded();
    let all = lines(&scratch, &[]);
    let named = |options: &[&str], words: &str| {
        let lines = lines(&scratch, options);
        assert!(!lines.is_empty(), "{options:?}");
        let other = lines.iter().find(|line| !line.contains(words));
        assert_eq!(other, None, "{options:?}: {lines:#?}");
        lines.len()
    };
    let count_c = named(&["--comm", "train\"ing"], "train\"ing");
    // Found by its id.
    let count_d = named(&["--comm", "0xabc"], "comm 2 (1)");
    let thread_count = all.iter().filter(|line| line.contains(" thread ")).count();
    // The transfer and its step are records of the rank on the thread that did them.
    assert_eq!(count_c + count_d + thread_count, all.len() + 2);
    assert_eq!(named(&["--rank", "1"], "train\"ing"), count_c);
    // The put, its end and the record of the step.
    assert_eq!(named(&["--kind", "ProxyStep"], "proxy thread"), 3);
    assert_eq!(named(&["--kind", "rmaput"], "bytes=28"), 1);
    // The region, and the records of the collective in it.
    assert_eq!(named(&["--kind", "Coll", "--rank", "0"], "comm 2 (1) 0 "), count_d);
    assert_eq!(lines(&scratch, &["--limit", "3"]), all[..3]);
    for (options, words) in [
        (["--comm", "0x1235"], "no communicator named 0x1235: the archive has "),
        (
            ["--rank", "0-"],
            "is neither a rank such as 3 nor a range such as 4-7; separate several with commas: \
            0,2,4-7",
        ),
        (["--rank", "77"], "no rank 77: the archive has ranks 0"),
        (["--from", "99s"], "--from 99.000 s is after the end of the archive, "),
        (["--kind", "MpiCollectiveEnd,CeColl"], ""),
    ] {
        let is_wrong = !words.is_empty();
        let said = print(&scratch, &scratch.out(), &options).with_code(if is_wrong { 2 } else { 0 }).stderr;
        assert!(said.contains(words), "{said}");
    }
    let said = print(&scratch, &scratch.out(), &["--rank", "0", "--kind", "CeColl"]).with_code(2).stderr;
    assert!(said.contains("nothing in the archive matches all of --rank 0, --kind CeColl"), "{said}");
    let wrong = print(&scratch, &scratch.out(), &["--kind", "Moon"]).with_code(2);
    assert!(wrong.stderr.contains("Moon") && wrong.stderr.contains("MpiIsend"), "{wrong}");
}

#[test]
fn open_regions_come_first() {
    let scratch = recorded();
    let all = records(&scratch, &scratch.out(), &[]);
    let is = |record: &Value, event: &str, region: &str| record["event"] == event && record["region"] == region;
    let step = all.iter().position(|record| record["event"] == "RmaPut").expect("a put");
    let from = format!("@{}", times(&all)[step]);
    let late = records(&scratch, &scratch.out(), &["--from", &from]);
    // The operation and the thread's work had begun, the call was over.
    let (enter, rest): (Vec<_>, Vec<_>) =
        late.iter().partition(|record| record["time"].as_u64() < times(&all)[step].into());
    assert!(enter.iter().all(|record| record["event"] == "Enter"), "{enter:#?}");
    assert!(enter.iter().any(|record| is(record, "Enter", "NCCL network")), "{enter:#?}");
    assert!(!enter.iter().any(|record| is(record, "Enter", "NCCL group")), "{enter:#?}");
    assert_eq!(late[..enter.len()].iter().collect::<Vec<_>>(), enter);
    let at_or_after = times(&all).iter().filter(|time| **time >= times(&all)[step]).count();
    assert_eq!(rest.len(), at_or_after);
    let before = records(&scratch, &scratch.out(), &["--to", &from]);
    let until = times(&all).iter().filter(|time| **time <= times(&all)[step]).count();
    assert_eq!(before.len(), until);
}

#[test]
fn a_low_limit_of_open_files_is_raised() {
    let scratch = recorded();
    let all = lines(&scratch, &[]);
    let mut shell = scratch.plain("sh");
    // Fewer than there are locations.
    shell.args(["-c", "ulimit -Sn 6 && exec \"$0\" print out"]);
    shell.arg(built::nccl_otf2());
    assert_eq!(run(&mut shell).with_code(0).stdout.lines().count(), all.len() + 1);
}

#[test]
fn what_cannot_be_printed_says_why() {
    let scratch = recorded();
    let parts = scratch.out().join("parts");
    let said = run(scratch.tool(&["print"]).arg(scratch.out()).arg(&parts)).with_code(2).stderr;
    assert!(said.contains("an archive already has all processes"), "{said}");
    let events = std::fs::read_dir(scratch.out().join("traces")).expect("the event files");
    let mut files: Vec<PathBuf> = events.map(|entry| entry.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "evt"));
    std::fs::remove_file(&files[0]).expect("remove an event file");
    let said = print(&scratch, &scratch.out(), &[]).with_code(2).stderr;
    assert!(said.contains("nccl-otf2 check"), "{said}");
    std::fs::remove_file(scratch.out().join("traces.otf2")).expect("remove the anchor");
    // The journals are there still.
    let said = print(&scratch, &scratch.out(), &[]).with_code(0).stdout;
    assert!(said.contains(" init train\"ing "), "{said}");
    let part = std::fs::read_dir(&parts).expect("parts").next().expect("a part");
    let journal = part.expect("a part").path().join("journal");
    std::fs::remove_dir_all(journal).expect("remove the journal");
    let said = print(&scratch, &scratch.out(), &[]).with_code(2).stderr;
    assert!(said.contains("NCCL_OTF2_KEEP_JOURNAL=1"), "{said}");
}

#[test]
fn journals_of_processes_are_put_together() {
    let scratch = Scratch::new();
    let _replayed = run(scratch.replay(&two_process_streams()).env("NCCL_OTF2_KEEP_JOURNAL", "1")).with_code(0);
    let parts = scratch.out().join("parts");
    let together = print(&scratch, &parts, &["--json"]).with_code(0).stdout;
    let mut apart = 0;
    let mut pids = std::collections::BTreeSet::new();
    for part in std::fs::read_dir(&parts).expect("parts") {
        let part = part.expect("a part").path();
        apart += print(&scratch, &part, &["--json"]).with_code(0).stdout.lines().count();
    }
    let mut written = Vec::new();
    for line in together.lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let moment = match (&record["recordType"], &record["type"]) {
            (kind, _) if kind == "state" || kind == "gpu" => &record,
            // Of a communicator the beginning counts, of an event the end.
            (_, kind) if kind == "ProfilerLifecycle" => &record["start"],
            _ => &record["stop"],
        };
        pids.insert(moment["pid"].to_string());
        // A GPU's work comes when it ended, too.
        let began = moment["ts"].as_f64().expect("a time");
        let took = if record["recordType"] == "gpu" { record["duration"].as_f64().unwrap_or(0.0) } else { 0.0 };
        written.push(began + took);
    }
    assert_eq!((written.len(), pids.len()), (apart, 2));
    assert!(written.is_sorted(), "{together}");
    let text = print(&scratch, &parts, &["--kind", "CollApi"]).with_code(0).stdout;
    for pid in pids {
        assert!(text.contains(&format!(" {pid}/")), "{pid}: {text}");
    }
}
