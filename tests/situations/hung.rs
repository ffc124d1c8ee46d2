//! Jobs that hang, each in another way, and their reports: while they hang, of a snapshot, when they were killed
//! under `run`, when they were finalized by hand, and when nothing but the archive is left.

mod damaged;
mod incomplete;
mod job;
mod ways;

use std::time::Duration;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::print_skipped;
use whole_plugin::process::{LIMIT, Running, run, start, wait_for};
use whole_plugin::scratch::Scratch;

use job::{Job, suspect, tool, verdict};
use ways::{WAYS, Way, script};

/// Longer than a wait must last to count as a hang, plus the part that is not recorded of killed processes.
const HANGS_FOR: Duration = Duration::from_millis(13_500);

/// The verdict is a hang, with this reason and one of the way's ranks.
fn check(way: &Way, when: &str, report: &Value, expected: &str) {
    let Way { name, ranks, .. } = way;
    let (reason, rank) = suspect(report);
    let found = (verdict(report), report["verdict"]["found"] == true, reason);
    assert_eq!(found, ("hang", true, expected), "{name}, {when}: {report:#}");
    assert!(ranks.contains(&rank), "{name}, {when}: {report:#}");
}

/// All of them hang at the same time: what takes long is to wait for it.
#[test]
fn who_holds_up_a_job_is_named_however_it_ends() {
    let jobs: Vec<(&Way, Job)> = WAYS.iter().map(|way| (way, Job::start(way))).collect();
    for (_, job) in &jobs {
        job.wait_until_it_hangs();
    }
    std::thread::sleep(HANGS_FOR);
    let (_, first) = &jobs[0];
    let top = run(tool(first.scratch(), "top").arg(first.scratch().out()).arg("--once")).with_code(0);
    assert!(top.stdout.starts_with("HANG: rank 2 has not called "), "{top}");
    for (way, job) in &jobs {
        check(way, "while it hangs", &job.report(), way.live);
        let snapshot = job.dump();
        check(way, "dumped", &job::report(&snapshot), way.live);
        job.copy();
    }
    for (way, job) in jobs {
        let Way { name, .. } = way;
        let (scratch, ended) = job.kill();
        let out = scratch.out();
        assert!(ended.stderr.contains("nccl-otf2: HANG: "), "{name}: {ended}");
        assert!(ended.stderr.contains("nccl-otf2 hang "), "{name}: {ended}");
        check(way, "killed", &job::report(&out), way.killed);
        let watched = run(tool(&scratch, "watch").arg(&out).arg("--once")).with_code(1);
        assert!(watched.stdout.contains("HANG: "), "{name}: {watched}");
        let text = run(tool(&scratch, "hang").arg(&out).args(["--after", "600"])).with_code(1);
        assert!(text.stdout.contains("judged from the journals; kept in"), "{name}: {text}");
        assert!(!text.stdout.contains("under way"), "{name}: of what is over nothing is: {text}");
        assert!(text.stderr.contains("with --after 10.000 s when the job was over"), "{name}: {text}");

        let stats = run(tool(&scratch, "stats").arg(&out)).with_code(0);
        // Of these two a third rank of `world` never came; nothing else is missing in the others.
        let is_cut = ["never came", "two communicators in different orders"].contains(name);
        assert_eq!(stats.stdout.contains("The recording is incomplete"), is_cut, "{name}: {stats}");
        let top = run(tool(&scratch, "top").arg(&out).arg("--once"));
        assert!(top.stdout.starts_with("HANG: "), "{name}: {top}");
        assert!(top.stdout.contains("the job is over") && !top.stdout.contains("cannot be read"), "{name}: {top}");

        let over = run(tool(&scratch, "dump").arg(&out).args(["--wait", "1"])).with_code(2);
        assert!(over.stderr.contains("no process is recording here any more; the archive is "), "{name}: {over}");

        let by_hand = scratch.path().join("copy");
        let finalized = run(tool(&scratch, "finalize").arg(&by_hand));
        assert!(finalized.stdout.contains("\nHANG: "), "{name}: {finalized}");
        check(way, "finalized", &job::report(&by_hand), way.killed);

        let stats = run(tool(&scratch, "stats").arg(&out)).with_code(0).stdout;
        assert!(stats.starts_with("HANG: "), "{name}: {stats}");
        std::fs::remove_file(out.join("hang.json")).expect("kept");
        check(way, "of the archive", &job::report(&out), way.archived);
        let anchor = out.join("traces.otf2");
        let text = run(tool(&scratch, "hang").arg(&anchor)).with_code(1);
        assert!(text.stdout.contains("from the archive"), "{name}: {text}");
        first_in_stats(way, &out);
    }
}

/// What did not end comes before what was late.
fn first_in_stats(way: &Way, out: &std::path::Path) {
    let name = way.name;
    let stats = run(std::process::Command::new(built::nccl_otf2()).arg("stats").arg("--json").arg(out));
    let stats: Value = serde_json::from_str(&stats.with_code(0).stdout).expect("JSON");
    let found = &stats["verdict"];
    assert_eq!(found["is_partial"], true, "{name}: {found:#}");
    assert_eq!(found["finding"], "unfinished", "{name}: {found:#}");
    let hang = &job::report(out)["verdict"];
    assert_eq!(found["line"], hang["line"], "{name}: one verdict");
    let evidence = hang["evidence"].as_array().expect("a list");
    let basis = found["basis"].as_array().expect("a list");
    assert!(basis.starts_with(evidence), "{name}: {found:#}");
}

/// A launcher that starts `run` for each rank: no tool sees all journals, and the last one makes the archive.
#[test]
fn the_last_of_many_tools_says_who_held_up_the_job() {
    let way = &WAYS[0];
    let scratch = Scratch::new();
    let tools = (0_usize..).zip(way.scripts).map(|(rank, words)| {
        let file = scratch.path().join(format!("rank{rank}"));
        std::fs::write(&file, script(rank, words)).expect("written");
        let mut tool = scratch.tool(&["run", "--plugin"]);
        tool.arg(built::plugin()).arg("--out").arg(scratch.out()).arg("--").arg(built::plugin_host());
        tool.arg("script").arg(file).arg("--plugin").arg(built::plugin());
        start(tool.env("RANK", rank.to_string()).env("WORLD_SIZE", "3"))
    });
    let tools: Vec<Running> = tools.collect();
    scratch.wait_for_recording(3);
    wait_for("a job that hangs", || {
        let report = job::report_after(&scratch.out(), "0");
        (report["suspects"][0]["ranks_blocked"] == 2).then_some(())
    });
    std::thread::sleep(HANGS_FOR);
    tools.iter().for_each(|tool| tool.signal("TERM"));
    let ended: Vec<String> = tools.into_iter().map(|tool| tool.wait(LIMIT).with_code(143).stderr).collect();
    let said = ended.iter().filter(|stderr| stderr.contains("nccl-otf2: HANG: rank 2 ")).count();
    assert_eq!(said, 1, "{ended:#?}");
    check(way, "killed", &job::report(&scratch.out()), way.archived);
}

/// A debugger that answers as py-spy does, and the real gdb where there is one.
#[test]
fn the_stack_of_a_suspect_is_in_the_evidence_and_kept() {
    let job = Job::start(&WAYS[1]);
    job.wait_until_it_hangs();
    let (scratch, out) = (job.scratch(), job.scratch().out());
    let tools = scratch.path().join("tools");
    std::fs::create_dir(&tools).expect("made");
    let py_spy = tools.join("py-spy");
    let dump = "#!/bin/sh\necho Process $4: train.py\necho 'Thread 7 (idle): \"MainThread\"'\n\
        echo '    nanosleep (libc.so.6)'\necho '    load_batch (data.py:17)'\n";
    std::fs::write(&py_spy, dump).expect("written");
    std::fs::set_permissions(&py_spy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("may run");
    let hang = |path: &str| {
        let ended = run(tool(scratch, "hang").arg(&out).args(["--after", "0", "--stacks", "--json"]).env("PATH", path));
        let report: Value = serde_json::from_str(&ended.with_code(1).stdout).expect("JSON");
        (report["verdict"]["evidence"].to_string(), report["suspects"][0]["process"].to_string())
    };
    let (evidence, process) = hang(&tools.display().to_string());
    assert!(evidence.contains("rank 2 is in `load_batch (data.py:17)`: stacks in "), "{evidence}");
    let pid = process.trim_matches('"').rsplit(':').next().expect("host:pid").to_owned();
    let kept: Vec<_> =
        std::fs::read_dir(out.join("stacks")).expect("made").flatten().map(|entry| entry.path()).collect();
    let text = std::fs::read_to_string(&kept[0]).expect("kept");
    assert!(kept.len() == 1 && text.contains(&format!("Process {pid}: train.py")), "{kept:?}: {text}");
    match std::env::var_os("PATH").and_then(|path| std::env::split_paths(&path).find(|one| one.join("gdb").exists())) {
        Some(_)
            if std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").is_ok_and(|scope| scope.trim() != "0") =>
        {
            print_skipped("gdb may not attach to processes (kernel.yama.ptrace_scope)");
        }
        Some(folder) => {
            let (evidence, _) = hang(&folder.display().to_string());
            assert!(evidence.contains("rank 2 is in `") && evidence.contains("sleep"), "{evidence}");
        }
        None => print_skipped("there is no gdb"),
    }
    job.kill();
}
