//! `nccl-otf2 finalize`, and what `run` does for processes that were killed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use journal::host::{Life, life_here, pid_namespace, start_ticks};
use serde_json::Value;
use whole_plugin::machine::skip;

use super::recording::{NO_PROCESS, record, record_in};
use super::support::{Scratch, text};

fn finalize(scratch: &Scratch, options: &[&str], directory: &Path) -> (Option<i32>, Value) {
    let output = scratch.tool().args(["finalize", "--json"]).args(options).arg(directory).output().expect("ran");
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    (output.status.code(), report)
}

fn states(report: &Value) -> Vec<&str> {
    let parts = report["parts"].as_array().expect("parts");
    parts.iter().map(|part| part["state"].as_str().expect("a state")).collect()
}

#[test]
fn killed_processes_become_an_archive_once() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    for rank in 0..2 {
        record(&out, rank, NO_PROCESS, 3);
    }
    let (code, report) = finalize(&scratch, &[], &out);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(states(&report), ["written", "written"]);
    assert_eq!(report["archive"]["processes"], 2);
    assert_eq!((&report["complete"], &report["changed"]), (&true.into(), &true.into()));
    assert!(!out.join("parts/host-0/journal").exists());

    let anchor = fs::read(out.join("traces.otf2")).expect("an anchor");
    let (code, report) = finalize(&scratch, &[], &out);
    assert_eq!((code, states(&report)), (Some(0), vec!["done", "done"]));
    assert_eq!(report["changed"], false);
    assert_eq!(fs::read(out.join("traces.otf2")).expect("an anchor"), anchor);

    let output = scratch.tool().arg("check").arg(&out).output().expect("ran");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let output = scratch.tool().args(["info", "--json"]).arg(&out).output().expect("ran");
    let info: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(info["operations"][0]["function"], "ncclAllReduce");
    assert_eq!(info["operations"][0]["count"], 6);
    assert_eq!(info["communicators"][0]["ranks_recorded"], 2);
}

#[test]
fn what_is_in_the_archive_is_chosen_anew_while_journals_are_kept() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    for rank in 0..2 {
        record(&out, rank, NO_PROCESS, 3);
    }
    let (code, _) = finalize(&scratch, &["--keep-journal"], &out);
    assert_eq!(code, Some(0));
    let options =
        ["--level=light", "--metrics=bytes-in-flight,bandwidth", "--comm-locations=cpu", "--collectives=nonblocking"];
    let (code, report) = finalize(&scratch, &options, &out);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(states(&report), ["written", "written"]);
    let archive = otf2::Archive::open(&out.join("traces.otf2")).expect("opens");
    for (name, value) in [
        ("NCCL::LEVEL", "light"),
        ("NCCL::METRICS", "bytes-in-flight,bandwidth"),
        ("NCCL::COMM_LOCATIONS", "cpu"),
        ("NCCL::COLLECTIVES", "nonblocking"),
    ] {
        assert_eq!(archive.property(name), Some(value), "{name}");
    }
    let output = scratch.tool().arg("check").arg(&out).output().expect("ran");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));

    fs::remove_dir_all(out.join("parts/host-1/journal")).expect("removed");
    for (option, code, said) in [
        ("--level=full", 2, "NCCL_OTF2_KEEP_JOURNAL=1"),
        ("--level=fulll", 2, "not one of light, standard, full"),
        ("--metrics=bandwith", 2, "network-bandwidth"),
    ] {
        let output = scratch.tool().args(["finalize", option]).arg(&out).output().expect("ran");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{option}: {error}");
        assert!(error.contains(said), "{option}: {error}");
    }
}

#[test]
fn a_part_that_comes_later_is_added() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    record(&out, 0, NO_PROCESS, 1);
    let (_, report) = finalize(&scratch, &["--keep-journal"], &out);
    assert_eq!(report["archive"]["processes"], 1);
    assert_eq!(report["archive"]["ranks_missing"], 1);
    assert!(out.join("parts/host-0/journal").exists());
    record(&out, 1, NO_PROCESS, 1);
    let (code, report) = finalize(&scratch, &[], &out);
    assert_eq!((code, states(&report)), (Some(0), vec!["done", "written"]));
    assert_eq!(report["archive"]["processes"], 2);
}

#[test]
fn running_processes_are_left_alone_unless_asked_for() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    record(&out, 0, NO_PROCESS, 1);
    record(&out, 1, std::process::id(), 1);
    let (code, report) = finalize(&scratch, &[], &out);
    assert_eq!((code, states(&report)), (Some(1), vec!["written", "live"]));
    assert_eq!(report["complete"], false);
    let (_, report) = finalize(&scratch, &["--include-live"], &out);
    assert_eq!(states(&report)[1], "written", "{report:#}");
    assert_eq!(report["archive"]["processes"], 2);
}

#[test]
fn shards_write_parts_and_say_how_to_go_on() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    for rank in 0..3 {
        record(&out, rank, NO_PROCESS, 1);
    }
    let shard = |shard: &str| {
        let mut tool = scratch.tool();
        let output = tool.args(["finalize", shard]).arg(&out).output();
        let output = output.expect("ran");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(!out.join("traces.otf2").exists());
        text(&output.stdout)
    };
    let said = shard("--shard=0/2");
    assert!(said.contains("2 parts of this shard written, 0 before"), "{said}");
    let again = shard("--shard=0/2");
    assert!(again.contains("0 parts of this shard written, 2 before"), "{again}");
    let last = shard("--shard=1/2");
    assert!(last.contains("1 part of this shard written"), "{last}");
    assert!(last.contains("nccl-otf2 finalize"), "{last}");
    scratch.tool().args(["finalize", "--shard", "2/2"]).arg(&out).assert().code(2);
    let (code, report) = finalize(&scratch, &[], &out);
    assert_eq!((code, states(&report)), (Some(0), vec!["done"; 3]));
    assert_eq!(report["archive"]["processes"], 3);
}

/// On a terminal one sees how far it is, and of what.
#[test]
fn a_terminal_shows_progress() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    for rank in 0..2 {
        record(&out, rank, NO_PROCESS, 1);
    }
    // util-linux's script gives a command a terminal.
    let tool = scratch.tool().get_program().to_owned();
    let command = format!("'{}' finalize '{}'", tool.display(), out.display());
    let mut script = Command::new("script");
    let Ok(output) = script.args(["-qec", &command, "/dev/null"]).env("TERM", "xterm").output() else {
        skip("there is no program `script`");
        return;
    };
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}");
    let bars: Vec<&str> = shown.split('\r').filter(|line| line.contains(['░', '█'])).collect();
    assert!(bars.iter().any(|bar| bar.contains("0/2")), "{shown}");
    for bar in bars {
        assert!(["journals ", "parts ", "locations "].iter().any(|what| bar.contains(what)), "{bar}");
        assert!(!bar.contains("0/0"), "{bar}");
    }
    let after = shown.rsplit("\u{1b}[2K").next().unwrap_or_default();
    assert!(!after.contains(['░', '█']), "the bar is taken away: {after}");

    let again = scratch.tool().arg("finalize").arg(&out).output();
    assert_eq!(text(&again.expect("ran").stderr), "", "no terminal, no bar");
}

#[test]
fn a_part_that_cannot_be_written_is_listed_with_its_reason() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    record(&out, 0, NO_PROCESS, 1);
    let part = record(&out, 1, NO_PROCESS, 1);
    fs::remove_dir_all(part.join("journal")).expect("removed");
    fs::write(part.join("journal"), "no directory").expect("written");
    let (code, report) = finalize(&scratch, &[], &out);
    assert_eq!((code, states(&report)), (Some(1), vec!["written", "failed"]));
    let reason = report["parts"][1]["reason"].as_str().expect("a reason");
    assert!(reason.contains("journal"), "{reason}");
}

#[test]
fn a_written_part_that_cannot_be_read_is_named_and_the_archive_stays() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    for rank in 0..2 {
        record(&out, rank, NO_PROCESS, 1);
    }
    finalize(&scratch, &[], &out);
    fs::write(out.join("parts/host-1/manifest"), "{").expect("damaged");
    let (code, report) = finalize(&scratch, &[], &out);
    assert_eq!((code, states(&report)), (Some(1), vec!["done", "failed"]));
    let reason = report["parts"][1]["reason"].as_str().expect("a reason");
    assert!(reason.contains("host-1/manifest"), "{reason}");
    assert_eq!(report["changed"], false);
    assert_eq!(report["archive"]["processes"], 2);
}

#[test]
fn why_there_is_no_archive_is_said_part_by_part() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    record(&out, 0, std::process::id(), 1);
    let (code, report) = finalize(&scratch, &[], &out);
    assert_eq!((code, states(&report)), (Some(2), vec!["live"]));
    assert_eq!(report["archive"], Value::Null);
}

#[test]
fn what_is_no_job_is_an_error() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("empty")).expect("made");
    for (path, word) in [("missing", "no such file"), ("empty", "parts/")] {
        let output = scratch.tool().args(["finalize", path]).output().expect("ran");
        assert_eq!(output.status.code(), Some(2), "{path}");
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
    }
}

#[test]
fn run_completes_what_killed_processes_left() {
    let scratch = Scratch::new();
    for rank in 0..2 {
        record(&scratch.join("recorded"), rank, NO_PROCESS, 2);
    }
    let script = "cp -r recorded/parts $NCCL_OTF2_DIR; exit 7";
    let output = scratch.run(&["-o", "trace"], script).output().expect("ran");
    assert_eq!(output.status.code(), Some(7));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("2 processes") && stderr.contains("vampir"), "{stderr}");
    assert!(scratch.join("trace/traces.otf2").exists());
}

#[test]
fn run_leaves_all_to_finalize_when_asked_to() {
    let scratch = Scratch::new();
    record(&scratch.join("recorded"), 0, NO_PROCESS, 2);
    let script = "cp -r recorded/parts $NCCL_OTF2_DIR";
    let output = scratch.run(&["-o", "trace", "--no-finalize"], script).output().expect("ran");
    assert!(text(&output.stderr).contains("nccl-otf2 finalize"), "{}", text(&output.stderr));
    assert!(!scratch.join("trace/traces.otf2").exists());
    assert!(scratch.join("trace/parts/host-0/journal").exists());
}

/// One rank of a job cannot see whether the others still run: it writes its own part, and nobody else's.
#[test]
fn a_rank_of_a_job_writes_its_own_part_only() {
    let scratch = Scratch::new();
    for rank in 0..2 {
        record_in(&scratch.join("recorded"), rank, NO_PROCESS, 2, |info| {
            info.environment.rank = Some(rank);
            info.environment.size = Some(2);
            info.environment.launcher = Some("PMI".to_owned());
        });
    }
    let ranked = |rank: &str, script: &str| {
        scratch.run(&["-o", "trace", "--append"], script).env("PMI_RANK", rank).env("PMI_SIZE", "2").assert().code(0);
    };
    ranked("1", "cp -r recorded/parts $NCCL_OTF2_DIR");
    assert!(scratch.join("trace/parts/host-1/done").exists());
    assert!(!scratch.join("trace/parts/host-0/done").exists());
    assert!(!scratch.join("trace/traces.otf2").exists());
    // The last one makes the archive.
    ranked("0", "true");
    assert!(scratch.join("trace/parts/host-0/done").exists());
    assert!(scratch.join("trace/traces.otf2").exists());
}

/// A process that was killed and not waited for.
struct Zombie(Child);

impl Zombie {
    fn make() -> Self {
        let mut child = Command::new("sleep").arg("600").spawn().expect("it starts");
        child.kill().expect("it can be killed");
        let begin = Instant::now();
        while life_here(child.id(), None) != Life::Gone {
            assert!(begin.elapsed().as_secs() < 60, "it does not die");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(start_ticks(child.id()).is_some(), "it is still listed");
        Self(child)
    }
}

impl Drop for Zombie {
    fn drop(&mut self) {
        let _status = self.0.wait();
    }
}

#[test]
fn a_killed_process_that_nobody_waits_for_is_dead() {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    let zombie = Zombie::make();
    let pid = zombie.0.id();
    record_in(&out, 0, pid, 3, |info| {
        info.pid_namespace = pid_namespace();
        info.start_ticks = start_ticks(pid).expect("it is still listed");
    });
    let output = scratch.tool().args(["hang", "--json"]).arg(&out).output();
    let output = output.expect("ran");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["processes"][0]["process_state"], "gone", "{report:#}");
    let (code, report) = finalize(&scratch, &[], &out);
    assert_eq!((code, states(&report)), (Some(0), vec!["written"]));
}
