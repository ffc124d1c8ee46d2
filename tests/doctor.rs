//! `nccl-otf2 doctor` on the published NCCL libraries: NCCL does what it predicts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::{RELEASE, has, nccl_library, skip, tested};
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::scratch::Scratch;

fn doctor(scratch: &Scratch, variables: &[(&str, &str)], arguments: &[&str]) -> FinishedProcess {
    let mut command = scratch.command(built::nccl_otf2());
    run(command.arg("doctor").args(arguments).envs(variables.iter().copied()))
}

fn report(scratch: &Scratch, variables: &[(&str, &str)], arguments: &[&str]) -> Value {
    let ended = doctor(scratch, variables, &[arguments, &["--json"]].concat());
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"));
    let code = i32::from(report["level"] == "problem");
    let _ended = ended.with_code(code);
    report
}

/// The level of the first finding of a topic that contains a text.
fn level<'a>(report: &'a Value, topic: &str, text: &str) -> &'a str {
    let findings = report["findings"].as_array().expect("a list");
    let is_it = |finding: &&Value| finding["topic"] == topic && finding["text"].as_str().unwrap().contains(text);
    let found = findings.iter().find(is_it);
    found.unwrap_or_else(|| panic!("no {text:?} of {topic}: {report:#}"))["level"].as_str().expect("a level")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The plugin under the name that it is installed by.
fn installed(scratch: &Scratch) -> PathBuf {
    let folder = scratch.path().join("lib");
    fs::create_dir(&folder).expect("made");
    symlink(built::plugin(), folder.join("libnccl-profiler-otf2.so")).expect("linked");
    folder
}

/// A job with each value of NCCL_PROFILER_PLUGIN is recorded if and only if the doctor says that this plugin is loaded,
/// by the table that the doctor names.
#[test]
fn what_is_said_happens() {
    for version in tested(["2.23.4", "2.25.1", "2.27.7", RELEASE], |release| release) {
        let Some(library) = nccl_library(version) else {
            return;
        };
        nccl_does_what_is_said(version, &library);
    }
}

fn nccl_does_what_is_said(version: &str, library: &Path) {
    let scratch = Scratch::new();
    let folder = installed(&scratch);
    let path = folder.join("libnccl-profiler-otf2.so");
    let mut recorded = Vec::new();
    for value in ["otf2", "libnccl-profiler-otf2.so", text(&path), "none", "stat"] {
        let variables = [("NCCL_PROFILER_PLUGIN", value), ("LD_LIBRARY_PATH", text(&folder))];
        let said = report(&scratch, &variables, &[text(library)]);
        let mut job = scratch.command(built::nccl_host());
        job.arg("--lib").arg(library).arg(format!("--fake-gpu={}", built::fake_gpu().display()));
        job.args(["--exact", "--threads", "2", "--ops", "one"]).envs(variables);
        // NCCL 2.23 follows a null pointer when the program is no plugin.
        if (version, value) != ("2.23.4", "stat") {
            let _ended = run(&mut job).with_code(0);
        }
        let parts = fs::read_dir(scratch.out().join("parts")).into_iter().flatten().flatten();
        let part = parts.map(|part| part.path()).next();
        let table = part.map(|part| {
            let process = fs::read_to_string(part.join("process.json")).expect("there");
            serde_json::from_str::<Value>(&process).expect("JSON")["table"].clone()
        });
        let nccl = &said["nccl"][0];
        assert_eq!(nccl["release"], version, "{said:#}");
        let expected = (nccl["profiler"] == "nccl-profiler-otf2").then(|| nccl["table"].clone());
        assert_eq!(table, expected, "{version} with {value}: {said:#}");
        if table.is_some() {
            recorded.push(value);
            fs::remove_dir_all(scratch.out()).expect("removed");
        }
    }
    assert!(recorded.contains(&"libnccl-profiler-otf2.so"), "{version}: {recorded:?}");
    assert!(!recorded.contains(&"none") && !recorded.contains(&"stat"), "{version}: {recorded:?}");
}

/// A virtual environment with NVIDIA's package, and one with a PyTorch that has NCCL linked in.
#[test]
fn nccl_is_found_in_python_environments() {
    let (Some(old), Some(new)) = (nccl_library("2.26.5"), nccl_library("2.28.9")) else {
        return;
    };
    let scratch = Scratch::new();
    let venv = scratch.path().join("venv");
    let packages = venv.join("lib/python3.11/site-packages");
    let link = |library: &Path, name: &str| {
        let file = packages.join(name);
        fs::create_dir_all(file.parent().expect("has one")).expect("made");
        symlink(library, file).expect("linked");
    };
    link(&new, "nvidia/nccl/lib/libnccl.so.2");
    // It is recognized by NCCL's text in it, and because it needs no libnccl.
    link(&old, "torch/lib/libtorch_cuda.so");
    fs::create_dir_all(venv.join("bin")).expect("made");
    fs::write(venv.join("bin/python3"), "").expect("written");
    fs::write(venv.join("pyvenv.cfg"), "include-system-site-packages = false\n").expect("written");
    let bin = venv.join("bin");
    let by_path = report(&scratch, &[("PATH", text(&bin))], &[]);
    for found in [by_path, report(&scratch, &[], &[text(&venv)]), report(&scratch, &[], &[text(&bin.join("python3"))])]
    {
        let mut releases: Vec<(&str, bool)> = found["nccl"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|row| {
                (row["release"].as_str().unwrap(), row["found_by"].as_str().unwrap().contains("linked into PyTorch"))
            })
            .collect();
        releases.sort_unstable();
        assert_eq!(releases, [("2.26.5", true), ("2.28.9", false)], "{found:#}");
    }
    // PyTorch's profiler may want CUPTI in these processes.
    assert_eq!(level(&report(&scratch, &[], &[text(&venv)]), "cupti", "PyTorch"), "note");
}

#[test]
fn what_is_wrong_with_the_settings_is_a_problem() {
    let Some(library) = nccl_library(RELEASE) else {
        return;
    };
    let scratch = Scratch::new();
    let library = text(&library);
    let of = |name: &str, value: &str| report(&scratch, &[(name, value)], &[library]);
    assert_eq!(level(&of("NCCL_OTF2_EVENTS", "ful"), "settings", "NCCL_OTF2_EVENTS=ful"), "problem");
    assert_eq!(level(&of("NCCL_OTF2_EVENT", "full"), "settings", "did you mean NCCL_OTF2_EVENTS"), "problem");
    assert_eq!(level(&of("NCCL_PROFILER_PLUGIN", "otf2"), "plugin", "libnccl-profiler-otf2.so"), "problem");
    assert_eq!(level(&of("NCCL_OTF2_MODE", "off"), "settings", "nothing is recorded"), "warning");
    assert_eq!(level(&of("NCCL_OTF2_DIR", "/proc/trace"), "directory", "cannot write to"), "problem");
    assert_eq!(level(&of("NCCL_OTF2_EVENTS", "full"), "events", "kernel channels"), "warning");
    assert_eq!(level(&of("CUDA_INJECTION64_PATH", "/opt/nsys/lib.so"), "cupti", "CUDA_INJECTION64_PATH"), "note");
    assert_eq!(level(&of("SCOREP_ENABLE_TRACING", "true"), "scorep", "SCOREP_ENABLE_TRACING"), "note");
    let first = |variables: &[(&str, &str)]| doctor(&scratch, variables, &[library]);
    let well = first(&[]).with_code(0).stdout;
    assert!(well.starts_with("READY: NCCL 2.32.3 can be recorded (standard events)"), "{well}");
    let wrong = first(&[("NCCL_OTF2_EVENTS", "ful")]).with_code(1).stdout;
    assert!(wrong.starts_with("PROBLEM: NCCL_OTF2_EVENTS=ful"), "{wrong}");
    // What is not there, and what is no library.
    let missing = doctor(&scratch, &[], &["nowhere"]).with_code(2).stderr;
    assert!(missing.contains("cannot read nowhere"), "{missing}");
    fs::write(scratch.path().join("notes.txt"), "text").expect("written");
    let other = doctor(&scratch, &[], &["notes.txt"]).with_code(2).stderr;
    assert!(other.contains("notes.txt is not a 64-bit library or program"), "{other}");
    assert!(!scratch.out().exists(), "nothing is left behind");
}

/// Another profiler under NCCL's default name, as CoMMA is installed.
#[test]
fn broadcasts_are_missing_unless_nccl_is_told_not_to_fuse_them() {
    let scratch = Scratch::new();
    let told = [("NCCL_ALLGATHERV_ENABLE", "0"), ("NCCL_OTF2_EVENTS", "full")];
    let risks = [("2.30.7", "can hang in ncclCommDestroy"), (RELEASE, "have the times of other operations")];
    for (version, risk) in tested(risks, |case| case.0) {
        let Some(library) = nccl_library(version) else {
            return;
        };
        let [by_default, told] = [&told[1..], &told].map(|variables| report(&scratch, variables, &[text(&library)]));
        assert_eq!(level(&by_default, "events", "calls of ncclBroadcast"), "note");
        assert_eq!(level(&told, "events", "NCCL_ALLGATHERV_ENABLE=0 makes NCCL report broadcasts"), "ok");
        for (said, is_missing) in [(&by_default, true), (&told, false)] {
            for what in ["broadcasts, below the call", risk] {
                assert_eq!(said.to_string().contains(what), is_missing, "{what}: {said:#}");
            }
        }
    }
    for old in tested(["2.28.9"], |release| release).filter_map(nccl_library) {
        let said = report(&scratch, &told, &[text(&old)]).to_string();
        assert!(!said.to_lowercase().contains("broadcast"), "{said}");
    }
}

#[test]
fn another_profiler_in_the_only_place_is_named() {
    let Some(library) = nccl_library(RELEASE) else {
        return;
    };
    let scratch = Scratch::new();
    let folder = scratch.path().join("other");
    fs::create_dir(&folder).expect("made");
    let empty = built::profile_folder().join("libnccl_profiler_empty.so");
    symlink(empty, folder.join("libnccl-profiler.so")).expect("linked");
    let said = report(&scratch, &[("LD_LIBRARY_PATH", text(&folder))], &[text(&library)]);
    assert_eq!(said["nccl"][0]["profiler"], "an unknown profiler", "{said:#}");
    assert_eq!(level(&said, "plugin", "NCCL loads only one profiler"), "warning");
    // Behind this one it has its place.
    let empty = folder.join("libnccl-profiler.so");
    let chained = |name: &str| report(&scratch, &[("NCCL_OTF2_CHAIN", name)], &[text(&library)]);
    assert_eq!(
        level(&chained(text(&empty)), "plugin", "an unknown profiler is chained behind this project's plugin"),
        "ok"
    );
    assert_eq!(level(&chained("nowhere"), "plugin", "does not find libnccl-profiler-nowhere.so"), "warning");
    assert_eq!(level(&chained(text(&library)), "plugin", "is not a profiler plugin: it exports none"), "warning");
    assert_eq!(level(&chained(text(&built::plugin())), "plugin", "this project's plugin itself"), "warning");
    // NCCL's own files can name it, and what is behind this project's.
    let file = scratch.path().join("nccl.conf");
    fs::write(&file, format!("NCCL_PROFILER_PLUGIN={0}\nNCCL_OTF2_CHAIN={0}\n", empty.display())).expect("written");
    let by_file = |value: &str| {
        let variables = [("NCCL_CONF_FILE", text(&file)), ("NCCL_PROFILER_PLUGIN", value)];
        report(&scratch, &variables[..2 - usize::from(value.is_empty())], &[text(&library)])
    };
    let said = by_file("");
    assert_eq!(level(&said, "plugin", &format!("in {}: NCCL 2.32.3 loads an unknown", file.display())), "warning");
    assert_eq!(level(&said, "plugin", "an unknown profiler is chained behind this project's plugin"), "ok");
    assert_eq!(level(&by_file(text(&built::plugin())), "plugin", "this project's plugin"), "ok");
}

#[test]
fn who_gets_nvtx_ranges_is_said() {
    let scratch = Scratch::new();
    let other = scratch.path().join("libToolsInjection64.so");
    symlink(built::fake_gpu(), &other).expect("linked");
    let of = |name: &str, value: &str| report(&scratch, &[(name, value)], &[]);
    let injection = "NVTX_INJECTION64_PATH";
    assert_eq!(level(&of(injection, ""), "nvtx", "are not recorded without nccl-otf2 run"), "note");
    assert_eq!(level(&of(injection, text(&built::plugin())), "nvtx", "this project's plugin gets"), "ok");
    let copy = scratch.path().join("copy.so");
    fs::copy(built::plugin(), &copy).expect("copied");
    let plugin = built::plugin();
    let both = [("NCCL_PROFILER_PLUGIN", text(&plugin)), (injection, text(&copy))];
    assert_eq!(level(&report(&scratch, &both, &[]), "nvtx", "is a different copy"), "warning");
    assert_eq!(level(&of(injection, text(&other)), "nvtx", "Nsight Systems gets"), "note");
    assert_eq!(level(&of(injection, "/nowhere/lib.so"), "nvtx", "no tool gets NVTX ranges"), "warning");
    assert_eq!(level(&of("NCCL_OTF2_NVTX", "off"), "nvtx", "are not recorded"), "note");
}

#[test]
fn all_kernels_need_cupti() {
    let scratch = Scratch::new();
    let all = ("NCCL_OTF2_CUPTI_KERNELS", "all");
    let said = report(&scratch, &[all, ("KINETO_USE_DAEMON", "1")], &[]);
    assert_eq!(level(&said, "cupti", "NCCL_OTF2_CUPTI_KERNELS=all has no effect"), "warning");
}

/// That the plugin does as the doctor says is for `tests/recording/file_size.rs`.
#[test]
fn a_limit_on_files_is_said() {
    if !has("prlimit") {
        skip("there is no prlimit (util-linux)");
        return;
    }
    let scratch = Scratch::new();
    for (bytes, expected, text) in
        [(64 << 10, "problem", "nothing is recorded"), (8 << 20, "warning", "journals are limited to that")]
    {
        let mut command = scratch.command("prlimit");
        command.arg(format!("--fsize={bytes}")).arg(built::nccl_otf2()).args(["doctor", "--json"]);
        let ended = run(&mut command);
        let said: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"));
        assert_eq!(level(&said, "limits", text), expected);
    }
}
