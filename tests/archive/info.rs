//! `nccl-otf2 info` shows what NCCL does not report and what came too late.

use serde_json::Value;
use whole_plugin::kinds;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// A job of one rank, with callbacks after its end.
const WITH_LATE_CALLBACKS: &str = "
init c id=0x1 ranks=1 rank=0
start co Coll ctx=c rank=0 sequence=0 func=AllReduce count=8 datatype=ncclInt8
start op ProxyOp ctx=c parent=co rank=0 channel=0 peer=0 steps=1 is_send=1
stop co
finalize c
start late ProxyStep ctx=c parent=op rank=0 step=0
state late ProxyStepSendWait bytes=8
state op ProxyOpInProgress
stop late
start later ProxyStep ctx=c parent=op rank=0 step=1
stop op
";

fn info_output(scratch: &Scratch) -> (Value, String) {
    let json = run(scratch.tool(&["info", "--json"]).arg(scratch.out())).with_code(0).stdout;
    let text = run(scratch.tool(&["info"]).arg(scratch.out())).with_code(0).stdout;
    (serde_json::from_str(&json).expect("JSON"), text)
}

/// The archive of a script that ran under a release of NCCL.
fn recorded(script: &str, nccl: &str, settings: &[(&str, &str)]) -> Scratch {
    let scratch = Scratch::new();
    let mut job = scratch.script(script);
    job.args(["--nccl", nccl]).envs(settings.iter().copied());
    let _recorded = run(&mut job).with_code(0);
    let _written = scratch.finalize();
    scratch
}

#[test]
fn callbacks_after_the_end_are_counted_in_the_archive() {
    let scratch = recorded(WITH_LATE_CALLBACKS, "22809", &[("NCCL_OTF2_KEEP_JOURNAL", "1")]);
    let parts = std::fs::read_dir(scratch.out().join("parts")).expect("parts");
    let parts: Vec<_> = parts.map(|part| part.expect("a part").path()).collect();
    let [part] = parts.as_slice() else { panic!("one part: {parts:?}") };
    let beside = std::fs::read_to_string(part.join("late.json")).expect("late.json");
    let beside: Value = serde_json::from_str(&beside).expect("JSON");
    // Late starts give no handle, so NCCL reports nothing more about them.
    let late = serde_json::json!({"starts": {"ProxyStep": 2}, "stops": 1, "states": 1, "communicators": 0});
    assert_eq!(beside, late);
    let archive = scratch.archive();
    assert_eq!(archive.count("PROXYSTEP::LATE"), 2);
    assert_eq!(archive.count("PROXYOP::LATE"), 0);
    assert_eq!(archive.count("STOPS_LATE"), 1);
    assert_eq!(archive.count("STATES_LATE"), 1);
    let (report, text) = info_output(&scratch);
    let account = &report["completeness"];
    assert_eq!(account["callbacks_late"], 4, "{account:#}");
    assert_eq!(account["callbacks_lost"], 0);
    assert_eq!(account["kinds"]["proxystep"]["late"], 2);
    assert!(text.contains("callbacks after the end of recording: 4\n"), "{text}");
    let head = text.lines().find(|line| line.trim_start().starts_with("kind "));
    assert!(head.is_some_and(|head| head.ends_with(" late")), "{text}");
    // They are in a file of their own, however often the rest is written again.
    for level in ["light", "full"] {
        let _written = run(scratch.tool(&["finalize", "--level", level]).arg(scratch.out())).with_code(0);
        assert_eq!(scratch.archive().count("PROXYSTEP::LATE"), 2, "{level}");
    }
}

#[test]
fn an_archive_says_what_its_release_does_not_report() {
    let in_time = WITH_LATE_CALLBACKS.split("start late").next().expect("the job");
    let grouped = "all but the first of the grouped sends";
    let broadcasts = "broadcasts, below the call";
    let channels = "more than 64 operations of a channel behind";
    for (nccl, events, holds) in [
        ("22304", "full", [false, false, false]),
        ("22707", "full", [true, false, true]),
        ("22707", "standard", [true, false, false]),
        ("22809", "full", [false, false, true]),
        ("23103", "full", [false, true, true]),
    ] {
        let scratch = recorded(in_time, nccl, &[("NCCL_OTF2_EVENTS", events)]);
        let properties = scratch.archive().properties();
        let property = &properties["NCCL::UNREPORTED"];
        let (report, text) = info_output(&scratch);
        let spots: Vec<&str> = property.lines().collect();
        let reported: Vec<&str> =
            report["unreported"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        assert_eq!(reported, spots);
        let counted = format!("does not report {} kind", spots.len());
        assert!(text.contains(&counted), "{counted}: {text}");
        let found = [grouped, broadcasts, channels].map(|words| property.contains(words));
        assert_eq!(found, holds, "{nccl} {events}: {property}");
    }
}

#[test]
fn an_archive_claims_no_kinds_that_the_interface_does_not_have() {
    let in_time = WITH_LATE_CALLBACKS.split("start late").next().expect("the job");
    for table in 1..=7_u32 {
        let scratch = Scratch::new();
        let mut job = scratch.script(in_time);
        let _recorded = run(job.args(["--table", &table.to_string()]).env("NCCL_OTF2_EVENTS", "full")).with_code(0);
        let _written = scratch.finalize();
        let recorded = scratch.archive().properties()["NCCL::EVENTS"].clone();
        assert_eq!(recorded.split(',').collect::<Vec<_>>(), kinds::kinds_of_table(table), "table {table}");
        let (_, text) = info_output(&scratch);
        assert!(text.lines().any(|line| line.split_whitespace().eq(["recorded", "full"])), "table {table}: {text}");
    }
}

/// A name leads to one communicator, whatever users call theirs.
#[test]
fn no_two_communicators_have_one_name() {
    let inits: Vec<String> = ["x", "x", "x", "X", "world", "", ""]
        .iter()
        .enumerate()
        .map(|(at, name)| format!("init c{at} id={} ranks=1 rank=0 name={name}\n", 16 + at))
        .collect();
    let scratch = recorded(&inits.concat(), "22809", &[]);
    let (report, _) = info_output(&scratch);
    let communicators = report["communicators"].as_array().expect("a list");
    let names: Vec<&str> = communicators.iter().map(|comm| comm["name"].as_str().expect("a name")).collect();
    let distinct: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!((distinct.len(), names.len()), (7, 7), "{names:?}");
    let ids: Vec<&str> = communicators.iter().map(|comm| comm["id"].as_str().expect("an id")).collect();
    assert_eq!(ids, ["0x10", "0x11", "0x12", "0x13", "0x14", "0x15", "0x16"]);
}
