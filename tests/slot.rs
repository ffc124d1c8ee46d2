//! NCCL's slot for a profiler plugin, which other software takes: `nccl-otf2 run` keeps what it displaces, and finds
//! who takes the slot from it. The other plugin is the echo plugin, as `libnccl-profiler-gcp.so`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::{RELEASE, nccl_library, tested};
use whole_plugin::process::{LIMIT, run, start, wait_for};
use whole_plugin::scratch::Scratch;

const OTHER: &str = "libnccl-profiler-gcp.so";
const JOB: [&str; 6] = ["--procs", "1", "--threads", "2", "--ops", "one"];

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A directory of the library path that has the other plugin under a name.
fn folder(scratch: &Scratch, name: &str) -> PathBuf {
    let folder = scratch.path().join("other");
    fs::create_dir(&folder).expect("made");
    fs::copy(built::echo_plugin(), folder.join(name)).expect("copied");
    folder
}

/// The beginning of a library, as an interrupted copy leaves it.
fn cut(scratch: &Scratch, library: &Path) -> PathBuf {
    let bytes = fs::read(library).expect("read");
    let file = scratch.path().join("cut.so");
    fs::write(&file, &bytes[..100_000]).expect("written");
    file
}

#[test]
fn what_run_displaces_is_called_behind_the_plugin() {
    for way in ["environment", "file", "default", "--no-chain", "NCCL_OTF2_CHAIN"] {
        let scratch = Scratch::new();
        let name = if way == "default" { "libnccl-profiler.so" } else { OTHER };
        let folder = folder(&scratch, name);
        let options: &[&str] = if way == "--no-chain" { &["--no-chain"] } else { &[] };
        let Some(mut job) = scratch.run_nccl(RELEASE, options, &JOB) else { return };
        let log = scratch.path().join("log");
        job.env("LD_LIBRARY_PATH", &folder).env("ECHO_OUT", &log);
        let file = scratch.path().join("nccl.conf");
        match way {
            "default" => {}
            "file" => {
                fs::write(&file, "# of the site\nNCCL_PROFILER_PLUGIN=gcp\n").expect("written");
                job.env("NCCL_CONF_FILE", &file);
            }
            "NCCL_OTF2_CHAIN" => {
                job.env("NCCL_PROFILER_PLUGIN", "gcp").env(way, folder.join(OTHER));
            }
            _ => {
                job.env("NCCL_PROFILER_PLUGIN", "gcp");
            }
        }
        let ended = run(&mut job).with_code(0);
        let plugin = built::plugin().canonicalize().expect("there");
        let of_file = format!("NCCL_PROFILER_PLUGIN=gcp in {} is replaced by {}", file.display(), plugin.display());
        let expected = match way {
            "file" => of_file.as_str(),
            "default" => "libnccl-profiler.so, which NCCL loads by default, is replaced by ",
            "NCCL_OTF2_CHAIN" => "",
            _ => "NCCL_PROFILER_PLUGIN=gcp is replaced by ",
        };
        assert!(ended.stderr.contains(expected), "{way}: {ended}");
        assert_eq!(ended.stderr.contains("is replaced by"), !expected.is_empty(), "{way}: {ended}");
        let calls = format!("which chains an unknown profiler ({}) behind itself", folder.join(name).display());
        assert_eq!(ended.stderr.contains(&calls), ["environment", "file", "default"].contains(&way), "{way}: {ended}");
        let chained = scratch.sound_archive().properties().remove("NCCL::CHAIN::PLUGINS");
        assert_eq!((chained.is_some(), log.exists()), (way != "--no-chain", way != "--no-chain"), "{way}: {ended}");
    }
}

#[test]
fn a_library_that_is_cut_short_is_found_before_the_job_starts() {
    let scratch = Scratch::new();
    let ours = cut(&scratch, &built::plugin());
    let started = |plugin: &Path| {
        let mut tool = scratch.tool(&["run", "--plugin", text(plugin), "-o", "trace", "--", "touch", "started"]);
        let ended = run(&mut tool).with_code(2).stderr;
        assert!(!scratch.path().join("started").exists() && !scratch.path().join("trace").exists());
        ended
    };
    let said = started(&ours);
    assert!(said.contains("cut.so is truncated") && said.contains("--plugin"), "{said}");
    assert!(started(&built::echo_plugin()).contains("is an unknown profiler, not this project's plugin"));
    assert!(started(&built::fake_gpu()).contains("is not a profiler plugin"));

    let other = cut(&scratch, &built::echo_plugin());
    let Some(mut alone) = scratch.nccl(RELEASE, &JOB) else { return };
    let ended = run(alone.env("NCCL_PROFILER_PLUGIN", &other));
    assert!(ended.stderr.contains("signal 7"), "NCCL is killed by SIGBUS: {ended}");
    let doctor_output = run(scratch
        .tool(&["doctor"])
        .arg(nccl_library(RELEASE).expect("there"))
        .envs([("NCCL_PROFILER_PLUGIN", text(&other)), ("NCCL_OTF2_CHAIN", text(&other))]));
    let first = "PROBLEM: NCCL_PROFILER_PLUGIN=";
    assert!(
        doctor_output.stdout.starts_with(first) && doctor_output.stdout.contains("killed by SIGBUS; it is"),
        "{doctor_output}"
    );
    for (name, chain) in [("NCCL_PROFILER_PLUGIN", ""), ("NCCL_OTF2_CHAIN", text(&built::echo_plugin()))] {
        let scratch = Scratch::new();
        let Some(mut job) = scratch.run_nccl(RELEASE, &[], &JOB) else { return };
        let value = if chain.is_empty() { text(&other).to_owned() } else { format!("{}, {chain}", text(&other)) };
        let ended = run(job.env(name, value)).with_code(0);
        assert!(ended.stderr.contains(&format!("{} is truncated", other.display())), "{ended}");
        let chained = scratch.sound_archive().properties().remove("NCCL::CHAIN::PLUGINS");
        assert_eq!(chained.is_some_and(|plugins| plugins.starts_with(chain)), !chain.is_empty());
    }
}

/// An entrypoint between the tool and the program changes the variable. The program waits until the tool has looked at
/// it: the test counts how often the thread that looks has slept.
#[test]
fn a_process_that_lost_the_plugin_is_named() {
    let [other, nccl] = [OTHER, "libnccl.so.2"];
    for (entrypoint, expected) in [
        ("NCCL_PROFILER_PLUGIN=gcp", "NCCL_PROFILER_PLUGIN was changed to gcp in the process "),
        ("-u NCCL_PROFILER_PLUGIN", "The command did not use NCCL"),
        (
            "-u NCCL_PROFILER_PLUGIN LD_PRELOAD=$PWD/other/libnccl.so.2",
            "NCCL_PROFILER_PLUGIN was removed from the environment of the process ",
        ),
        ("LD_PRELOAD=$PWD/other/libnccl-profiler-gcp.so", "has loaded another profiler, "),
    ] {
        let scratch = Scratch::new();
        let folder = folder(&scratch, other);
        fs::copy(folder.join(other), folder.join(nccl)).expect("copied");
        let waits = "touch there; until [ -e go ]; do sleep 0.02; done";
        let script = format!("env {entrypoint} sh -c '{waits}'; true");
        let tool = start(&mut scratch.tool(&["run", "-o", "trace", "--", "sh", "-c", &script]));
        wait_for("program", || scratch.path().join("there").exists().then_some(()));
        let looks = || sleeps(tool.id(), "processes");
        let before = looks();
        wait_for("look", || (looks() >= before + 4).then_some(()));
        fs::write(scratch.path().join("go"), "").expect("written");
        let ended = tool.wait(LIMIT).with_code(0);
        let said = ended.stderr.lines().find(|line| line.contains(expected));
        assert!(said.is_some(), "{entrypoint}: {ended}");
        let is_certain = entrypoint.contains("LD_PRELOAD");
        assert_eq!(ended.stderr.contains("The command did not use NCCL"), !is_certain, "{entrypoint}: {ended}");
        assert!(!is_certain || said.is_some_and(|said| said.contains("(sh)")), "{entrypoint}: {ended}");
    }
}

/// How often a thread of a process has waited.
fn sleeps(process: u32, name: &str) -> u64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    let mut statuses = statuses.filter(|status| status.starts_with(&format!("Name:\t{name}\n")));
    let status = statuses.next().unwrap_or_default();
    let number = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    number.map_or(0, |number| number.trim().parse().expect("a number"))
}

/// A plugin for NCCL's variables decides which profiler is loaded, whatever the environment says.
#[test]
fn a_plugin_for_variables_that_overrules_the_environment_is_named() {
    let scratch = Scratch::new();
    let folder = folder(&scratch, OTHER);
    let source = scratch.path().join("env.c");
    fs::write(&source, ENV_PLUGIN).expect("written");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(folder.join("libnccl-env-gcp.so")).arg(&source);
    let _made = run(&mut compiler).with_code(0);
    let Some(mut job) = scratch.run_nccl(RELEASE, &[], &JOB) else { return };
    let log = scratch.path().join("log");
    let variables = [("NCCL_ENV_PLUGIN", "gcp"), ("LD_LIBRARY_PATH", text(&folder))];
    let ended = run(job.envs(variables).env("ECHO_OUT", &log)).with_code(0);
    assert!(ended.stderr.contains("NCCL_ENV_PLUGIN=gcp: NCCL 2.28.7 and later reads its variables from "), "{ended}");
    assert!(ended.stderr.contains("nothing was recorded") && log.exists(), "{ended}");
    let Some(mut job) = scratch.run_nccl(RELEASE, &[], &JOB) else { return };
    let ended = run(job.env("LD_LIBRARY_PATH", &folder).env("NCCL_ENV_PLUGIN", "none")).with_code(0);
    assert!(!ended.stderr.contains("NCCL_ENV_PLUGIN"), "{ended}");
    let _recorded = scratch.sound_archive();
    for (release, is_overruled) in tested([(RELEASE, true), ("2.27.7", false)], |case| case.0) {
        let Some(library) = nccl_library(release) else { return };
        let mut doctor = scratch.tool(&["doctor", "--json"]);
        let report = run(doctor.arg(library).envs(variables).env("NCCL_PROFILER_PLUGIN", built::plugin()));
        let report: Value = serde_json::from_str(&report.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("a list").iter();
        let texts = findings.filter(|finding| finding["level"] == "warning").map(|finding| finding["text"].to_string());
        let overruled: Vec<String> = texts.filter(|text| text.contains("can override NCCL_PROFILER_PLUGIN")).collect();
        assert_eq!(overruled.len(), usize::from(is_overruled), "{release}: {report:#}");
    }
}

/// `ncclEnv_v1_t`: name, init, finalize, getEnv.
const ENV_PLUGIN: &str = r#"
#include <stdlib.h>
#include <string.h>
static int init(unsigned char major, unsigned char minor, unsigned char patch, const char* suffix) { return 0; }
static int finalize(void) { return 0; }
static const char* value(const char* name) { return strcmp(name, "NCCL_PROFILER_PLUGIN") ? getenv(name) : "gcp"; }
struct { const char* name; int (*init)(unsigned char, unsigned char, unsigned char, const char*);
         int (*finalize)(void); const char* (*value)(const char*); } ncclEnvPlugin_v1 = { "gcp", init, finalize, value };
"#;
