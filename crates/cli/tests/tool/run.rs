//! `nccl-otf2 run`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::support::{Scratch, ToolOutput};

#[test]
fn the_command_has_our_streams_to_itself_and_its_exit_code_is_ours() {
    let scratch = Scratch::new();
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 128 + 9)] {
        scratch.ran(&[], script).with_code(code);
    }
    let ended = ToolOutput::run(scratch.run(&[], "cat; echo out; echo err >&2").write_stdin("in\n"));
    assert_eq!(ended.stdout, "in\nout\n");
    assert!(ended.stderr.starts_with("err\n"), "{ended:?}");
    let words = ["run", "--plugin", "plugin.so", "-o", "trace", "printf", "%s,", "-o", "--force", "--", "x"];
    assert_eq!(scratch.ends(words).with_code(0).stdout, "-o,--force,--,x,", "options of the command, without `--`");
}

#[test]
fn the_variables_are_set_and_paths_are_absolute() {
    let scratch = Scratch::new();
    let options = "--out trace --events light --offline --keep-journal --max-size 1G --journal-dir /dev/shm \
                   --topology off";
    let options: Vec<&str> = options.split(' ').collect();
    let ended = scratch.ran(&options, "cd /; env | grep -E '^NCCL_' | grep -Ev '^NCCL_OTF2_(TEST_|JOB=.)' | sort");
    let here = scratch.path().canonicalize().expect("is there");
    let here = here.display();
    let expected = format!(
        "NCCL_OTF2_DIR={here}/trace\n\
         NCCL_OTF2_EVENTS=light\n\
         NCCL_OTF2_FINALIZE=offline\n\
         NCCL_OTF2_JOURNAL_DIR=/dev/shm\n\
         NCCL_OTF2_KEEP_JOURNAL=1\n\
         NCCL_OTF2_MAX_SIZE=1G\n\
         NCCL_OTF2_TOPOLOGY=off\n\
         NCCL_PROFILER_PLUGIN={here}/plugin.so\n"
    );
    assert_eq!(ended.stdout, expected);
    let ended = scratch.ran(&["--out", "dumped"], "env | grep DUMP_FILE | sort");
    let name = |stem: &str| format!("{here}/dumped/topology/{stem}-0000000000000000-00.xml");
    let expected = [("GRAPH", name("graphs")), ("TOPO", name("system"))]
        .map(|(what, path)| format!("NCCL_{what}_DUMP_FILE={path}\nNCCL_{what}_DUMP_FILE_RANK=         0\n"));
    assert_eq!(ended.stdout, expected.concat());
    assert!(!scratch.join("dumped").exists(), "no dump, nothing recorded");
    let mut by_name = scratch.run(&["--by-name"], "echo $NCCL_PROFILER_PLUGIN $LD_LIBRARY_PATH");
    let ended = ToolOutput::run(by_name.env("LD_LIBRARY_PATH", "/a:/b"));
    assert_eq!(ended.stdout, format!("plugin.so {here}:/a:/b\n"));
    let ended = ToolOutput::run(scratch.run(&[], "true").env("NCCL_PROFILER_PLUGIN", "example"));
    ended.assert_prints("NCCL_PROFILER_PLUGIN=example is replaced");
}

/// Which tool has NVTX's ranges, and which of them the plugin records.
#[test]
fn nvtx_is_given_to_the_plugin_unless_another_tool_has_it() {
    let scratch = Scratch::new();
    let here = scratch.path().canonicalize().expect("is there");
    let [ours, other] = ["plugin.so", "libToolsInjection64.so"].map(|name| here.join(name).display().to_string());
    symlink(std::env::current_exe().expect("this test"), &other).expect("linked");
    let given = |options: &[&str], variables: &[(&str, &str)]| {
        let mut run = scratch.run(options, "echo $NVTX_INJECTION64_PATH,$NCCL_OTF2_NVTX");
        ToolOutput::run(run.envs(variables.iter().copied()))
    };
    let injection = "NVTX_INJECTION64_PATH";
    for (options, variables, expected) in [
        (&[][..], &[][..], format!("{ours},")),
        (&["--nvtx", "nccl"], &[], format!("{ours},nccl")),
        (&["--nvtx", "off"], &[], ",off".to_owned()),
        (&[], &[("NCCL_OTF2_NVTX", "off")], ",off".to_owned()),
        (&["--nvtx", "all"], &[("NCCL_OTF2_NVTX", "off")], format!("{ours},all")),
        (&[], &[(injection, "")], format!("{ours},")),
        (&[], &[(injection, &ours)], format!("{ours},")),
    ] {
        let ended = given(options, variables);
        assert_eq!(ended.stdout.trim_end(), expected, "{options:?} {variables:?}");
        assert!(!ended.stderr.contains("NVTX"), "{ended:?}");
    }
    let theirs = given(&[], &[(injection, &other)]);
    assert_eq!(theirs.stdout.trim_end(), format!("{other},"));
    theirs.assert_prints(&format!(
        "{injection}={other} is kept: Nsight Systems gets the NVTX ranges, so they are not recorded"
    ));
    let copy = here.join("copy.so").display().to_string();
    fs::copy(&ours, &copy).expect("copied");
    let copied = given(&[], &[(injection, &copy)]);
    assert_eq!(copied.stdout.trim_end(), format!("{ours},"));
    copied.assert_prints(&format!("not to another copy of the plugin ({copy})"));
    let missing = given(&[], &[(injection, "/nowhere/lib.so")]);
    assert_eq!(missing.stdout, "/nowhere/lib.so,\n");
    missing.assert_prints("does not find /nowhere/lib.so: no tool gets NVTX ranges");
    scratch.ran(&["--nvtx", "some"], "touch ran").with_code(2).assert_prints("auto, nccl, all, off");
    assert!(!scratch.join("ran").exists());
}

#[test]
fn nothing_recorded_is_explained_and_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let ended = scratch.ran(&["-o", "trace"], "true");
    ["nothing was recorded", "NCCL_DEBUG=INFO", "one rank", "2.23"].iter().for_each(|word| ended.assert_prints(word));
    assert!(!scratch.join("trace").exists());
    scratch.ran(&["-o", "trace"], "kill -SEGV $$").with_code(139).assert_prints("The command failed: signal: 11");
    // Created directories are private.
    let modes = scratch.ran(&["-o", "outer/trace"], "stat -c %a outer outer/trace");
    assert_eq!(modes.stdout, "700\n700\n");
    // If the recording is removed while the command runs, the reason is not guessed.
    for command in ["rm -r trace", "rmdir trace/parts", "mkdir trace/parts/x; rmdir trace/parts/x"] {
        let scratch = Scratch::new();
        let ended = scratch.ran(&["-o", "trace"], command);
        ended.assert_prints("while the command ran");
        assert_eq!(ended.stderr.lines().count(), 1, "{command}: {ended:?}");
    }
    // A plugin that finds no room for its journal does the same.
    let scratch = Scratch::new();
    scratch
        .ran(&["-o", "trace"], "mkdir trace/parts/x; rmdir trace/parts/x")
        .assert_prints("no process could write one");
    assert!(!scratch.join("trace").exists());
}

#[test]
fn an_archive_that_is_there_stays_unless_it_is_to_be_replaced() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("trace")).expect("made");
    for name in ["traces.otf2", "notes.txt"] {
        fs::write(scratch.join("trace").join(name), "precious").expect("written");
    }
    let ended = scratch.ran(&["-o", "trace"], "touch ran").with_code(2);
    ["--out", "--force", "--append"].iter().for_each(|option| ended.assert_prints(option));
    assert!(!scratch.join("ran").exists(), "the command did not run");
    // Ranks of a job would remove each other's parts.
    let mut ranked = scratch.run(&["-o", "trace", "--force"], "touch ran");
    ToolOutput::run(ranked.env("PMI_RANK", "1").env("PMI_SIZE", "2"))
        .with_code(2)
        .assert_prints("--force cannot be used");
    assert_eq!(fs::read_to_string(scratch.join("trace/traces.otf2")).expect("still there"), "precious");
    scratch.ran(&["-o", "trace", "--append"], "touch ran").with_code(2).assert_prints("nothing can be added");
    fs::create_dir(scratch.join("trace/parts")).expect("made");
    scratch.ran(&["-o", "trace", "--append"], "touch ran").with_code(0);
    assert!(scratch.join("ran").exists() && scratch.join("trace/traces.otf2").exists());
    let words = ["run", "--plugin", "plugin.so", "-o", "trace", "--force", "--", "no-such-program"];
    scratch.ends(words).with_code(2).assert_prints("nothing was removed");
    assert!(scratch.join("trace/traces.otf2").exists());
    scratch.ran(&["-o", "trace", "--force"], "true").with_code(0);
    assert!(!scratch.join("trace/traces.otf2").exists() && scratch.join("trace/notes.txt").exists());
}

#[test]
fn the_directory_is_a_template_like_the_variable() {
    let scratch = Scratch::new();
    let directory = |job: Option<&str>, template: &str| {
        let mut run = scratch.run(&["-o", template], "echo $NCCL_OTF2_DIR");
        run.envs(job.map(|job| ("SLURM_JOB_ID", job)));
        ToolOutput::run(&mut run).stdout.trim().rsplit('/').next().unwrap_or_default().to_owned()
    };
    assert_eq!(directory(Some("77"), "trace-%j"), "trace-77");
    // The plugin expands `%` again.
    assert_eq!(directory(Some("77"), "100%%-%j"), "100%%-77");
    let alone = directory(None, "trace-%j");
    assert!(alone.starts_with("trace-2") && alone.len() > "trace-20261123-151657-".len(), "{alone}");
    scratch.ran(&["-o", "trace-%p"], "touch ran").with_code(2);
    assert!(!scratch.join("ran").exists());
}

#[test]
fn wrong_usage_runs_nothing() {
    let scratch = Scratch::new();
    fs::write(scratch.join("taken"), "").expect("written");
    let wrong: [(&[&str], &str); 6] = [
        (&["--events", "lihgt"], "--events: NCCL_OTF2_EVENTS=lihgt"),
        (&["--max-size", "much"], "--max-size: "),
        (&["--steps", "9-7"], "--steps: NCCL_OTF2_STEPS=9-7: \"9-7\" ends before it begins"),
        (&["--steps", "step:7-", "--nvtx", "nccl"], "--steps names the range \"step\""),
        (&["--force", "--append"], "cannot be used with"),
        (&["-o", "taken"], "taken is a file: --out must name a directory"),
    ];
    for (options, said) in wrong {
        scratch.ran(options, "touch ran").with_code(2).assert_prints(said);
        assert!(!scratch.join("ran").exists(), "{options:?}");
    }
    let mut ranked = scratch.run(&[], "touch ran");
    ToolOutput::run(ranked.env("PMI_RANK", "1").env("PMI_SIZE", "2")).with_code(2).assert_prints("--out");
    scratch.ends(["run", "--plugin", "plugin.so"]).with_code(2);
    let absent = scratch.ends(["run", "--plugin", "/nowhere/plugin.so", "--", "touch", "ran"]).with_code(2);
    absent.assert_prints("--plugin /nowhere/plugin.so: no such file");
    assert!(!scratch.join("ran").exists());
    scratch.ends(["run", "--nonsense", "--", "x"]).with_code(2).assert_prints("--nonsense");
    let missing = scratch.ends(["run", "--plugin", "plugin.so", "-o", "trace", "--", "/nowhere/program"]);
    missing.with_code(2).assert_prints("/nowhere/program");
    assert!(!scratch.join("trace").exists(), "nothing is left behind");
}

/// Starts a run whose command prints when it is ready for a signal.
fn start(scratch: &Scratch, script: &str) -> (Child, Pid) {
    let program = scratch.tool().get_program().to_owned();
    // A shell cannot trap signals that it inherits as ignored, such as SIGINT in the background of another shell.
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
    // If a signal kills the command, the exit code shows it.
    let scratch = Scratch::new();
    let (child, process) = start(&scratch, "echo ready; exec sleep 100");
    kill_process(process, Signal::TERM).expect("sent");
    assert_eq!(code_of(child), Some(128 + 15));
}
