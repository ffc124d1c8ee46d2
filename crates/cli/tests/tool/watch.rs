//! `nccl-otf2 watch` on journals written by the recorder's own writer.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use whole_plugin::process::{LIMIT, Running, start, wait_for};

use super::recording::{NO_PROCESS, record};
use super::support::Scratch;

/// Rank 0 has three collectives, rank 1 has `of_rank_1`; both are dead.
fn job(scratch: &Scratch, of_rank_1: u64) {
    let out = scratch.join("trace");
    record(&out, 0, NO_PROCESS, 3);
    record(&out, 1, NO_PROCESS, of_rank_1);
}

fn watch(scratch: &Scratch, arguments: &[&str]) -> Running {
    let mut command = Command::new("sh");
    command.current_dir(scratch.path()).args(["-c", "exec \"$0\" \"$@\" 2> errors"]).arg(scratch.tool().get_program());
    command.args(["watch", "trace", "--interval", "0.1", "--hang-after", "0"]);
    start(command.args(arguments))
}

fn errors(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.join("errors")).unwrap_or_default()
}

fn lines(scratch: &Scratch, file: &str) -> usize {
    fs::read_to_string(scratch.join(file)).unwrap_or_default().lines().count()
}

/// Removes the values that change with every look: times.
fn timeless(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(name, _)| !name.ends_with("_ns"));
            fields.map(|(name, value)| (name, timeless(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(timeless).collect(),
        Value::String(text) => text.split(' ').filter(|word| word.parse::<f64>().is_err()).collect(),
        value => value,
    }
}

#[test]
fn a_hang_is_reported_once_and_so_is_its_end() {
    let scratch = Scratch::new();
    let commands = [
        "--on-hang",
        "cat > hang.json; echo >> hangs",
        "--on-clear",
        "cat > clear.json; echo >> clears",
        "--write",
        ".",
    ];
    // Started before there is a job.
    let watch = watch(&scratch, &commands);
    let waits = ["trace: no such file or directory", "(looking again)"];
    wait_for("look", || waits.iter().all(|part| errors(&scratch).contains(part)).then_some(()));
    job(&scratch, 2);
    wait_for("report", || (lines(&scratch, "hangs") > 0).then_some(()));
    std::thread::sleep(Duration::from_secs(1));
    fs::remove_dir_all(scratch.join("trace/parts/host-1")).expect("removed");
    let _part = record(&scratch.join("trace"), 1, NO_PROCESS, 3);
    wait_for("end", || (lines(&scratch, "clears") > 0).then_some(()));
    watch.signal("TERM");
    let ended = watch.wait(LIMIT).with_code(0);

    let expected = ["HANG: rank 1 had not called ncclAllReduce #3 of world (2); rank 0 waited for ", "CANNOT TELL: "];
    let said: Vec<&str> = ended.stdout.lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
    assert_eq!(said.len(), 2, "{ended}");
    assert!(said.iter().zip(expected).all(|(line, expected)| line.starts_with(expected)), "{ended}");
    assert!(errors(&scratch).contains("the command for `hang` ended after"), "{}", errors(&scratch));
    assert_eq!(errors(&scratch).matches(waits[1]).count(), 1, "{}", errors(&scratch));
    assert_eq!((lines(&scratch, "hangs"), lines(&scratch, "clears")), (1, 1));
    let clear: Value = serde_json::from_slice(&fs::read(scratch.join("clear.json")).expect("there")).expect("JSON");
    assert_eq!(clear["verdict"]["found"], false);
    let files = fs::read_dir(scratch.path()).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let mut files: Vec<String> = files.filter_map(|name| name.into_string().ok()).collect();
    files.retain(|name| name.ends_with(".json") && name.contains('-'));
    files.sort();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files[0].starts_with("clear-") && files[1].starts_with("hang-"), "{files:?}");
    assert_eq!(fs::read(scratch.join(&files[1])).ok(), fs::read(scratch.join("hang.json")).ok());
}

#[test]
fn once_is_for_cron_and_gives_the_report_of_hang() {
    let scratch = Scratch::new();
    let once = |after: &str, code| {
        let options = ["--write", "last.json", "--on-hang", "cat > hang.json; exit 3"];
        scratch.ends([&["watch", "trace", "--once", "--hang-after", after], &options[..]].concat()).with_code(code)
    };
    once("0", 2);
    job(&scratch, 2);
    assert_eq!(once("100", 0).stdout, "");
    assert!(!scratch.join("hang.json").exists() && !scratch.join("last.json").exists());
    once("0", 1).assert_prints("exit status: 3");
    let hang = scratch.ends(["hang", "trace", "--json", "--after", "0"]);
    let report = |bytes: &[u8]| timeless(serde_json::from_slice(bytes).expect("JSON"));
    let read = |file: &str| fs::read(scratch.join(file)).expect("there");
    assert_eq!(report(&read("hang.json")), report(hang.stdout.as_bytes()));
    assert_eq!(read("last.json"), read("hang.json"));
    // As `hang` reports it.
    fs::remove_dir_all(scratch.join("trace/parts/host-1/journal")).expect("removed");
    once("0", 2).assert_prints("CANNOT TELL: ");
}

/// Waits for the process whose id is in a file to end.
fn assert_ends(scratch: &Scratch, file: &str) {
    let id = fs::read_to_string(scratch.join(file)).expect("written");
    let state = || fs::read_to_string(format!("/proc/{}/status", id.trim())).unwrap_or_default();
    wait_for("end", || (!state().contains("State:\tS")).then_some(()));
}

#[test]
fn commands_neither_block_nor_end_it() {
    let scratch = Scratch::new();
    job(&scratch, 2);
    // It closes its stdin, and its child is killed with it.
    let slow = "exec <&-; echo $$ > shell; sleep 1000 & echo $! > child; wait";
    let ended = watch(&scratch, &["--until-end", "--command-limit", "1", "--on-hang", slow]).wait(LIMIT).with_code(1);
    assert!(errors(&scratch).contains("the command for `hang` was killed at its time limit"), "{ended}");
    assert!(errors(&scratch).contains("signal: 9"), "{ended}");
    assert_ends(&scratch, "shell");
    assert_ends(&scratch, "child");
    // Neither do processes survive that left its process group and its parent, or that ignore signals.
    let hidden = "setsid sh -c 'sleep 1000 & echo $! > hidden; wait' & wait";
    let _ended =
        watch(&scratch, &["--until-end", "--command-limit", "1", "--on-hang", hidden]).wait(LIMIT).with_code(1);
    assert_ends(&scratch, "hidden");
    let ended = watch(&scratch, &["--until-end", "--on-hang", "true", "--write", "no/where"]).wait(LIMIT).with_code(1);
    assert!(errors(&scratch).contains("cannot write to no/where"), "{ended}");
    assert!(ended.stdout.contains("HANG: rank 1"), "{ended}");
    assert!(errors(&scratch).contains("the command for `hang` ended"), "{ended}");
    // A signal ends the command, too.
    let watch = watch(&scratch, &["--on-hang", "trap 'echo > asked; exit 0' TERM; echo > runs; sleep 1000 & wait"]);
    wait_for("command", || scratch.join("runs").exists().then_some(()));
    watch.signal("INT");
    let _ended = watch.wait(LIMIT).with_code(0);
    assert!(scratch.join("asked").exists());
    // It also ends processes that the command started and that ignore SIGTERM.
    let deaf = "(trap '' TERM; sleep 1000 & echo $! > deaf; wait) & trap 'exit 0' TERM; wait";
    let watch = self::watch(&scratch, &["--on-hang", deaf]);
    wait_for("command", || (lines(&scratch, "deaf") > 0).then_some(()));
    watch.signal("INT");
    let _ended = watch.wait(LIMIT).with_code(0);
    assert_ends(&scratch, "deaf");
}
