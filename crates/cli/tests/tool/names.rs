//! Names come from other programs: terminals get them escaped, programs get them unchanged.

use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use journal::clock;
use nccl_events::ids::{ContextId, ProcessTag};
use nccl_events::{CommInit, Name};
use serde_json::Value;
use whole_plugin::machine::skip;

use super::recording::{NO_PROCESS, begin};
use super::support::{Scratch, text};

/// Clears the screen by C0 and C1 codes, sets the terminal's title, forges a line, overwrites it, and reverses text.
fn hostile(what: &str) -> String {
    format!("{what}\x1b[2J\u{9b}2J\x1b]0;t\x07\nFORGED\r\tx\u{202e}y\u{2066}\u{200f}")
}

/// The same text escaped for a terminal.
fn escaped(what: &str) -> String {
    format!("{what}{}", r"\u{1b}[2J\u{9b}2J\u{1b}]0;t\u{7}\nFORGED\r\tx\u{202e}y\u{2066}\u{200f}")
}

/// A job's directory with such a name: two killed ranks, the last of which is behind.
fn job(scratch: &Scratch) -> PathBuf {
    let out = scratch.join(&hostile("job"));
    for rank in 0..2 {
        let _part = part(&out, rank, 3 - u64::from(rank));
    }
    // Files that the recorder would not write itself.
    let torn = out.join("parts").join(hostile("torn"));
    fs::create_dir_all(torn.join("journal")).expect("made");
    fs::write(torn.join("process.json"), "\x1b[2J\nFORGED").expect("written");
    fs::write(torn.join("journal/0.0"), "\x1b[2J\nFORGED").expect("written");
    out
}

fn part(out: &Path, rank: u32, all_reduces: u64) -> PathBuf {
    let part = out.join("parts").join(format!("{}-{rank}", hostile("host")));
    let mut process = begin(&part, rank, NO_PROCESS, |info| {
        info.host = hostile("host");
        info.library = hostile("RCCL");
        info.plugin_version = hostile("1.0");
        info.tick_source = hostile("TSC");
        info.events = vec![hostile("Coll")];
        info.command = vec![hostile("python"), "-c".to_owned(), "first\nFORGED".to_owned()];
        info.working_directory = hostile("/work");
        info.environment.job = Some(hostile("4711"));
        info.environment.node_name = Some(hostile("node"));
        info.environment.cluster = Some(hostile("cluster"));
        info.environment.launcher = Some(hostile("srun"));
        info.environment.rank = Some(rank);
    });
    let name = CString::new(hostile("world")).expect("no NUL");
    process.context = ContextId::new(ProcessTag::new(u16::try_from(0x100 + rank).expect("few")), 2);
    let comm = CommInit {
        table: nccl_events::Table::V5,
        comm_id: 0x1234,
        name: Name::from_cstr(&name),
        nodes: 1,
        ranks: 2,
        rank: process.rank,
        nccl_version: 22_809,
    };
    process.main.comm_init(process.context.get(), clock::ticks(), 0, &comm);
    for sequence in 0..all_reduces {
        let _operation = process.all_reduce(sequence);
        process.exchange();
    }
    process.leave()
}

/// Output for people contains no control characters except the tool's own line breaks.
#[track_caller]
fn assert_escaped(arguments: &[&str], output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        let said = text(stream);
        let wild = |letter: &char| letter.is_control() || matches!(letter, '\u{200f}' | '\u{202e}' | '\u{2066}');
        let found =
            said.lines().find(|line| line.starts_with("FORGED") || line.chars().any(|character| wild(&character)));
        assert_eq!(found, None, "{arguments:?}: {said:?}");
    }
}

#[test]
fn no_verb_lets_a_name_act_on_the_terminal() {
    let scratch = Scratch::new();
    let out = job(&scratch);
    let out = out.to_str().expect("UTF-8");
    let run = |arguments: &[&str]| {
        let output = scratch.tool().args(arguments).timeout(std::time::Duration::from_secs(300)).output().expect("ran");
        let (said, code) = (text(&output.stdout) + &text(&output.stderr), output.status.code());
        assert!(matches!(code, Some(0..=2)) && !said.is_empty(), "{arguments:?} {code:?}: {said:?}");
        assert_escaped(arguments, &output);
        said
    };
    // From journals, before they become an archive. Prometheus's format escapes backslashes once more.
    let scraped = run(&["metrics", out, "--once", "--names", "inspector"]);
    assert!(scraped.contains(r"world\\u{1b}[2J\\u{9b}2J"), "{scraped}");
    let nowhere = hostile("nowhere");
    for (arguments, name) in [
        (&["hang", out, "--after", "0"][..], "world"),
        (&["hang", out, "--after", "0", "--all"], "host"),
        (&["top", out], "world"),
        (&["watch", out, "--once", "--hang-after", "0"], "torn"),
        (&["print", out], "world"),
        (&["run", "--plugin", &nowhere, "--", "true"], "nowhere"),
        (&["dump", out, "--wait", "0"], "job"),
        (&["doctor", &nowhere], "nowhere"),
        (&["finalize", out, "--keep-journal"], "job"),
        (&["info", out], "world"),
        (&["stats", out], "world"),
        (&["stats", out, "--by", "ranks"], "host"),
        (&["stats", out, "--comm", &nowhere], "nowhere"),
        (&["diff", out, &nowhere], "nowhere"),
        (&["report", out], "job"),
        (&["check", out], "job"),
        (&["print", &format!("{out}/traces.otf2")], "world"),
        (&["info", &nowhere], "nowhere"),
        (&["merge", &nowhere, out, "-o", "merged"], "nowhere"),
        (&["metrics", &nowhere, "--once"], "nowhere"),
        (&["stats", out, "--by", "operations", "--csv"], "world"),
    ] {
        let said = run(arguments);
        assert!(said.contains(&escaped(name)), "{arguments:?} has no {name}: {said}");
    }
    for format in ["perfetto", "kineto", "parquet", "jsonl", "scalasca"] {
        let made = hostile(format);
        assert!(run(&["export", "--format", format, out, "-o", &made]).contains("FORGED"), "{format}");
    }
}

#[test]
fn programs_get_names_as_they_are() {
    let scratch = Scratch::new();
    let out = job(&scratch);
    let run = |arguments: &[&str]| {
        let output = scratch.tool().args(arguments).output().expect("ran");
        assert_escaped(arguments, &Output { stdout: Vec::new(), ..output.clone() });
        text(&output.stdout)
    };
    let json = |arguments: &[&str]| -> Value { serde_json::from_str(&run(arguments)).expect("JSON") };
    // In an archive, the size of a communicator follows its name.
    let is_it = |entry: &Value, name: &str| {
        let said = entry["name"].as_str().and_then(|said| said.strip_prefix(name));
        said.is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
    };
    let has = |value: &Value, name: &str| value.as_array().is_some_and(|all| all.iter().any(|one| is_it(one, name)));
    let dir = out.to_str().expect("UTF-8");
    assert!(has(&json(&["hang", dir, "--json", "--after", "0"])["communicators"], &hostile("world")));
    assert!(has(&json(&["top", dir, "--json"])["communicators"], &hostile("world")));
    let lines = run(&["print", dir, "--json"]);
    let mut lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    assert!(lines.any(|line| line["details"]["commName"] == hostile("world").as_str()));
    assert_eq!(json(&["finalize", dir, "--json"])["format"], 1);
    let info = json(&["info", dir, "--json"]);
    assert!(has(&info["communicators"], &hostile("world")) && has(&info["hosts"], &hostile("host")), "{info:#}");
    // A list in the archive has one line per entry.
    let command = format!("{} -c first\\nFORGED", hostile("python").replace('\n', "\\n"));
    assert_eq!(info["commands"], serde_json::json!([command]), "{info:#}");
    assert!(has(&json(&["stats", dir, "--json"])["communicators"], &hostile("world")));
    // A sentence is for people, also in JSON.
    for arguments in [&["stats", dir, "--json"][..], &["hang", dir, "--json", "--after", "0"]] {
        let verdict = &json(arguments)["verdict"];
        let line = verdict["line"].as_str().expect("a line");
        assert!(line.chars().count() <= 110 && !line.contains(char::is_control), "{line:?}");
        let said = verdict.to_string();
        assert!(!said.contains(r"\u001b") && !said.contains(r"\nFORGED\r"), "{said}");
    }
}

#[test]
fn all_lines_fit_the_terminal() {
    let scratch = Scratch::new();
    let out = job(&scratch);
    let archive = scratch.join("archive");
    fs::rename(&out, &archive).expect("renamed");
    let tool = scratch.tool().get_program().to_owned();
    for verb in
        ["hang archive --after 0 --all", "finalize archive", "info archive", "stats archive", "check archive", "doctor"]
    {
        for width in [80, 30] {
            // util-linux's `script` runs a command in a terminal.
            let command = format!("stty rows 24 cols {width}; '{}' {verb} 2>/dev/null", tool.display());
            let mut script = Command::new("script");
            script.args(["-qec", &command, "/dev/null"]).env("TERM", "dumb").current_dir(scratch.path());
            let Ok(output) = script.stdin(Stdio::null()).output() else {
                skip("there is no program `script`");
                return;
            };
            let shown = text(&output.stdout);
            assert!(shown.lines().count() > 1, "{verb}: {shown}");
            // What is to be copied is not broken: commands, and words such as paths.
            let can_be_broken = |line: &&str| line.trim().contains(' ') && !line.starts_with("  next: ");
            let is_long = |line: &&str| console::measure_text_width(line.trim_end()) > width;
            let long = shown.lines().find(|line| is_long(line) && can_be_broken(line));
            assert_eq!(long, None, "{verb}: {shown}");
        }
    }
}
