//! TensorFlow takes profiles in a process that also drives NCCL.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use whole_plugin::built::{fake_gpu, plugin, root, tensorflow_library};
use whole_plugin::machine::{RELEASE, nccl_library, tensorflow};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use super::archive::lines_of;
use super::script;

/// What the stand-in for a GPU needs.
const VARIABLES: [(&str, &str); 8] = [
    ("NCCL_SOCKET_IFNAME", "lo"),
    ("NCCL_NET", "Socket"),
    ("NCCL_IB_DISABLE", "1"),
    ("NCCL_P2P_DISABLE", "1"),
    ("NCCL_SHM_DISABLE", "1"),
    ("NCCL_RAS_ENABLE", "0"),
    ("NCCL_PAT_ENABLE", "0"),
    ("NCCL_MAX_NCHANNELS", "2"),
];
/// All-reduces of `profile.py` outside of profiles, beside one more where NCCL comes first.
const BETWEEN: u64 = 2;
const BYTES: u64 = 4096;

struct Job {
    scratch: Scratch,
    python: PathBuf,
    said: Value,
}

impl Job {
    /// Runs `profile.py`; `first` says who loads a library first, or that TensorFlow loads none.
    fn run(first: &str) -> Option<Self> {
        let python = tensorflow()?;
        let library = nccl_library(RELEASE)?;
        let scratch = Scratch::new();
        let mut job = scratch.command(&python);
        job.arg("-B").arg(root().join("tests/tensorflow/profile.py"));
        job.arg(tensorflow_library()).arg(plugin()).arg(library).arg(scratch.path()).arg(first);
        job.envs(VARIABLES).env("LD_PRELOAD", fake_gpu()).env("TF_CPP_MIN_LOG_LEVEL", "2");
        job.env("NCCL_PROFILER_PLUGIN", plugin()).env("NCCL_OTF2_EVENTS", "full");
        let ended = run(&mut job).with_code(0);
        assert!(!ended.stderr.contains("lacks NCCL") && !ended.stderr.contains("internal error"), "{ended}");
        // NCCL says its version before.
        let said = ended.stdout.lines().last().expect("a line");
        let said = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {ended}"));
        Some(Self { scratch, python, said })
    }

    fn profiles(&self) -> Vec<Profile> {
        self.said["profiles"].as_array().expect("profiles").iter().map(Profile::from_json).collect()
    }

    fn read(&self, files: &[PathBuf]) -> Vec<Value> {
        let spaces = script(&self.python, "read_xspace.py", files);
        spaces.as_array().expect("spaces").clone()
    }

    /// The recording has all operations, whatever TensorFlow did meanwhile.
    fn check_archive(&self, outside: u64) {
        let _report = self.scratch.archive().sound();
        let lines = lines_of(&self.scratch);
        let is_of_operations = |name: &str| name.contains(" rank ") && !name.contains(" channel ");
        let operations = lines.iter().filter(|(name, _)| is_of_operations(name));
        let operations: u64 = operations.map(|(_, seen)| seen.events).sum();
        let calls: u64 = self.profiles().iter().map(|profile| profile.calls).sum();
        assert_eq!(operations, 2 * (calls + outside), "{lines:?}");
    }
}

struct Profile {
    folder: PathBuf,
    calls: u64,
    begin_ns: u64,
    end_ns: u64,
}

impl Profile {
    fn from_json(said: &Value) -> Self {
        let number = |name: &str| said[name].as_u64().expect("a number");
        Self {
            folder: said["folder"].as_str().expect("a path").into(),
            calls: number("calls"),
            begin_ns: number("begin"),
            end_ns: number("end"),
        }
    }

    fn file(&self) -> PathBuf {
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().ends_with(".xplane.pb") {
                    return path;
                }
            }
        }
        panic!("no profile in {}", self.folder.display());
    }

    /// TensorFlow's own events are there, and NCCL's are those that were called.
    fn check(&self, space: &Value) {
        let others = space["others"].as_array().expect("planes");
        assert!(others.iter().any(|plane| plane[0] == "/host:CPU" && plane[1].as_u64() > Some(0)), "{others:?}");
        let planes = space["planes"].as_object().expect("planes");
        if self.calls == 0 {
            // A proxy thread may go to sleep meanwhile.
            let mut lines = planes.values().flat_map(|lines| lines.as_object().expect("lines").keys());
            assert!(lines.all(|line| line.starts_with("proxy thread")), "{}: {planes:?}", self.folder.display());
            return;
        }
        let names: Vec<&str> = planes.keys().map(String::as_str).collect();
        let ranks = ["rank 0", "rank 1", "ranks 0, 1"].map(|ranks| format!("/device:CUSTOM:NCCL {ranks}"));
        assert_eq!(names, ranks);
        for (rank, name) in ranks.iter().take(2).enumerate() {
            let lines = planes[name].as_object().expect("lines");
            let operations = lines.iter().filter(|(line, _)| line.ends_with(&format!(" rank {rank}")));
            let operations: Vec<&Value> =
                operations.flat_map(|(_, events)| events.as_array().expect("events")).collect();
            assert_eq!(operations.len() as u64, self.calls, "{name}");
            for operation in operations {
                let stats = &operation["stats"];
                let said = json!([operation["name"], stats["nccl.bytes"], stats["nccl.datatype"]]);
                assert_eq!(said, json!(["NCCL AllReduce", BYTES, "ncclFloat32"]));
            }
            assert!(lines.keys().any(|line| line.starts_with("net ")), "{lines:?}");
        }
        let events = planes.values().flat_map(|lines| lines.as_object().expect("lines").values());
        let events: Vec<&Value> = events.flat_map(|events| events.as_array().expect("events")).collect();
        let calls = planes[&ranks[2]].as_object().expect("lines").iter();
        let calls = calls.filter(|(line, _)| line.starts_with("API thread"));
        let calls = calls.flat_map(|(_, events)| events.as_array().expect("events"));
        assert_eq!(calls.filter(|call| call["name"] == "ncclAllReduce").count() as u64, 2 * self.calls);
        for event in events {
            let start_ns = event["start_ns"].as_u64().expect("a time");
            assert!(self.begin_ns <= start_ns, "{event}: before {}", self.begin_ns);
            assert!(start_ns <= self.end_ns, "{event}: after {}", self.end_ns);
        }
    }
}

/// One profile after the other, with and without a recording, whoever loads a library first.
#[test]
fn profiles_have_what_nccl_did_in_their_time() {
    for (first, before, whole) in [("tensorflow", 0, Some(7)), ("nccl", 1, None)] {
        let Some(job) = Job::run(first) else {
            return;
        };
        for library in job.said["libraries"].as_array().expect("both") {
            let instances = |name: &str| library[name].as_array().expect("a list").len();
            assert_eq!((instances("instances"), instances("bases")), (1, 1), "{first}: one library, loaded once");
        }
        let profiles = job.profiles();
        let folders: Vec<PathBuf> = profiles.iter().map(|profile| profile.folder.clone()).collect();
        for (profile, space) in profiles.iter().zip(job.read(&folders)) {
            profile.check(&space);
        }
        let calls: BTreeSet<u64> = profiles.iter().map(|profile| profile.calls).collect();
        let expected: BTreeSet<u64> = [0, 3, 4, 5, 6].into_iter().chain(whole).collect();
        assert_eq!(calls, expected, "{first}");
        job.check_archive(before + BETWEEN);
    }
}

/// The archive is put into profiles that TensorFlow took without the plugin.
#[test]
fn an_export_is_put_into_a_profile_of_the_same_time() {
    let Some(job) = Job::run("apart") else {
        return;
    };
    let export = |host: &Path, code: i32| {
        let out = job.scratch.path().join("both.xplane.pb");
        let _old = std::fs::remove_file(&out);
        let before = std::fs::read(host).expect("a file");
        let mut tool = job.scratch.tool(&["export", "--format", "xplane", "out", "-o", "both.xplane.pb", "--into"]);
        let ended = run(tool.arg(host)).with_code(code);
        assert!(std::fs::read(host).expect("a file") == before, "the host's file is as it was");
        assert_eq!(out.exists(), code == 0);
        if code == 0 {
            assert!(std::fs::read(&out).expect("a file").starts_with(&before));
        }
        (out, ended.stderr)
    };
    let mut profiles = job.profiles();
    let before = profiles.remove(0);
    let after = profiles.iter().position(|profile| profile.calls == 0);
    for profile in &profiles {
        let (out, _) = export(&profile.file(), 0);
        let spaces = job.read(&[profile.folder.clone(), out.clone()]);
        assert!(spaces[0]["planes"].as_object().expect("planes").is_empty());
        assert_eq!(spaces[0]["others"], spaces[1]["others"]);
        profile.check(&spaces[1]);
        if profile.calls == 5 {
            let devices = script(&job.python, "trace_viewer.py", &[out]);
            let devices = devices.as_object().expect("devices").keys().cloned().collect::<Vec<String>>();
            assert_eq!(devices.len(), 4, "TensorFlow's and ours: {devices:?}");
        }
    }
    assert!(after.is_some(), "a profile in which NCCL did nothing");
    let (_, stderr) = export(&before.file(), 2);
    assert!(stderr.contains("has nothing in common with the archive"), "{stderr}");
    // A plane with a name, and nothing that says when.
    let timeless = job.scratch.path().join("timeless.xplane.pb");
    std::fs::write(&timeless, b"\x0a\x03\x12\x01A").expect("write");
    let (_, stderr) = export(&timeless, 2);
    assert!(stderr.contains("no stat profile_start_time"), "{stderr}");
    let (_, stderr) = export(&plugin(), 2);
    assert!(stderr.contains("not an XSpace"), "{stderr}");
    job.check_archive(BETWEEN);
}
