//! `nccl-otf2 run`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::support::{Scratch, text};

#[test]
fn ends_as_the_command_ends() {
    let scratch = Scratch::new();
    scratch.run(&[], "exit 0").assert().code(0);
    scratch.run(&[], "exit 3").assert().code(3);
    scratch.run(&[], "kill -9 $$").assert().code(128 + 9);
}

#[test]
fn the_command_has_our_stdin_and_stdout_to_itself() {
    let scratch = Scratch::new();
    let mut command = scratch.run(&[], "cat; echo out; echo err >&2");
    let output = command.write_stdin("in\n").output().expect("ran");
    assert_eq!(text(&output.stdout), "in\nout\n");
    assert!(text(&output.stderr).starts_with("err\n"), "{}", text(&output.stderr));
}

#[test]
fn the_variables_are_set_and_paths_are_absolute() {
    let scratch = Scratch::new();
    let options = [
        "--out",
        "trace",
        "--events",
        "light",
        "--offline",
        "--keep-journal",
        "--max-size",
        "1G",
        "--journal-dir",
        "/dev/shm",
    ];
    let output = scratch
        .run(&options, "cd /; env | grep -E '^NCCL_' | grep -Ev '^NCCL_OTF2_(TEST_|JOB=.)' | sort")
        .output()
        .expect("ran");
    let here = scratch.path().canonicalize().expect("is there");
    let here = here.display();
    let expected = format!(
        "NCCL_OTF2_DIR={here}/trace\n\
         NCCL_OTF2_EVENTS=light\n\
         NCCL_OTF2_FINALIZE=offline\n\
         NCCL_OTF2_JOURNAL_DIR=/dev/shm\n\
         NCCL_OTF2_KEEP_JOURNAL=1\n\
         NCCL_OTF2_MAX_SIZE=1G\n\
         NCCL_PROFILER_PLUGIN={here}/plugin.so\n"
    );
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn by_name_puts_the_plugin_on_the_library_path() {
    let scratch = Scratch::new();
    let output = scratch
        .run(&["--by-name"], "echo $NCCL_PROFILER_PLUGIN $LD_LIBRARY_PATH")
        .env("LD_LIBRARY_PATH", "/a:/b")
        .output()
        .expect("ran");
    let here = scratch.path().canonicalize().expect("is there");
    assert_eq!(text(&output.stdout), format!("plugin.so {}:/a:/b\n", here.display()));
}

#[test]
fn nothing_recorded_is_explained_and_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let output = scratch.run(&["-o", "trace"], "true").output().expect("ran");
    let stderr = text(&output.stderr);
    for word in ["nothing was recorded", "NCCL_DEBUG=INFO", "one rank", "2.23"] {
        assert!(stderr.contains(word), "{word} in {stderr}");
    }
    assert!(!scratch.join("trace").exists());
}

#[test]
fn what_is_removed_while_it_runs_is_no_reason_to_guess() {
    for command in ["rm -r trace", "rmdir trace/parts", "mkdir trace/parts/x; rmdir trace/parts/x"] {
        let scratch = Scratch::new();
        let output = scratch.run(&["-o", "trace"], command).output().expect("ran");
        let stderr = text(&output.stderr);
        assert!(stderr.contains("it was removed while the command ran"), "{command}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{command}: {stderr}");
    }
}

#[test]
fn another_plugin_is_replaced_with_a_word() {
    let scratch = Scratch::new();
    let output = scratch.run(&[], "true").env("NCCL_PROFILER_PLUGIN", "example").output().expect("ran");
    let stderr = text(&output.stderr);
    assert!(stderr.contains("NCCL_PROFILER_PLUGIN=example is replaced"), "{stderr}");
}

#[test]
fn an_archive_that_is_there_stays() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("trace")).expect("made");
    fs::write(scratch.join("trace/traces.otf2"), "precious").expect("written");
    let output = scratch.run(&["-o", "trace"], "touch ran").output().expect("ended");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--append"), "{}", text(&output.stderr));
    assert!(!scratch.join("ran").exists(), "the command did not run");
    let kept = fs::read_to_string(scratch.join("trace/traces.otf2")).expect("still there");
    assert_eq!(kept, "precious");
    scratch.run(&["-o", "trace", "--append"], "touch ran").assert().code(0);
    assert!(scratch.join("ran").exists());
}

#[test]
fn the_directory_is_a_template_like_the_variable() {
    let scratch = Scratch::new();
    let directory = |job: Option<&str>, template: &str| {
        let mut run = scratch.run(&["-o", template], "echo $NCCL_OTF2_DIR");
        run.envs(job.map(|job| ("SLURM_JOB_ID", job)));
        let output = run.output().expect("ran");
        let directory = text(&output.stdout).trim().to_owned();
        directory.rsplit('/').next().unwrap_or_default().to_owned()
    };
    assert_eq!(directory(Some("77"), "trace-%j"), "trace-77");
    // The plugin fills in `%` again.
    assert_eq!(directory(Some("77"), "100%%-%j"), "100%%-77");
    let alone = directory(None, "trace-%j");
    assert!(alone.starts_with("trace-2") && alone.len() > "trace-20261123-151657-".len(), "{alone}");
    scratch.run(&["-o", "trace-%p"], "touch ran").assert().code(2);
    assert!(!scratch.join("ran").exists());
}

#[test]
fn a_command_without_its_separator_is_shown_with_it() {
    let scratch = Scratch::new();
    let output = scratch.tool().args(["run", "-o", "trace", "python", "-u", "x"]).output().expect("ended");
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("after `--`: nccl-otf2 run -o trace -- python -u x\n"), "{stderr}");
    let output = scratch.tool().args(["run", "--nonsense", "--", "x"]).output().expect("ended");
    assert!(!text(&output.stderr).contains("comes after"), "{}", text(&output.stderr));
}

#[test]
fn wrong_usage_runs_nothing() {
    let scratch = Scratch::new();
    let wrong: [&[&str]; 4] = [
        &["--events", "nonsense"],
        &["--max-size", "much"],
        &["--plugin", "/nowhere/plugin.so"],
        &["--force", "--append"],
    ];
    for options in wrong {
        scratch.run(options, "touch ran").assert().code(2);
        assert!(!scratch.join("ran").exists(), "{options:?}");
    }
    scratch.tool().args(["run", "--plugin", "plugin.so"]).assert().code(2);
    let output = scratch
        .tool()
        .args(["run", "--plugin", "plugin.so", "-o", "trace", "--", "/nowhere/program"])
        .output()
        .expect("ended");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nowhere/program"));
    assert!(!scratch.join("trace").exists(), "nothing is left behind");
}

/// A run whose command says when it is ready for a signal.
fn start(scratch: &Scratch, script: &str) -> (Child, Pid) {
    let program = scratch.tool().get_program().to_owned();
    // A shell cannot trap what was ignored when it began, as SIGINT is in the background of another.
    let mut child = std::process::Command::new("env")
        .arg("--default-signal=INT,TERM,USR1")
        .arg(program)
        .current_dir(scratch.path())
        .args(["run", "--plugin", "plugin.so", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("said something");
    assert_eq!(line, "ready\n");
    let process = i32::try_from(child.id()).expect("a process id");
    (child, Pid::from_raw(process).expect("a process id"))
}

fn code_of(mut child: Child) -> Option<i32> {
    let limit = Instant::now() + Duration::from_secs(120);
    while Instant::now() < limit {
        if let Some(status) = child.try_wait().expect("can wait") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("can kill");
    panic!("did not end");
}

#[test]
fn signals_reach_the_command_and_the_tool_outlives_them() {
    for (signal, name, code) in [(Signal::TERM, "TERM", 41), (Signal::INT, "INT", 42), (Signal::USR1, "USR1", 43)] {
        let scratch = Scratch::new();
        let script = format!("trap 'exit {code}' {name}; echo ready; while :; do sleep 0.05; done");
        let (child, process) = start(&scratch, &script);
        kill_process(process, signal).expect("sent");
        assert_eq!(code_of(child), Some(code), "{name}");
    }
}

#[test]
fn a_signal_that_kills_the_command_is_in_the_exit_code() {
    let scratch = Scratch::new();
    let (child, process) = start(&scratch, "echo ready; exec sleep 100");
    kill_process(process, Signal::TERM).expect("sent");
    assert_eq!(code_of(child), Some(128 + 15));
}

#[test]
fn ranks_without_a_common_name_are_an_error() {
    let scratch = Scratch::new();
    let output = scratch.run(&[], "touch ran").env("PMI_RANK", "1").env("PMI_SIZE", "2").output().expect("ended");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--out"), "{}", text(&output.stderr));
}
