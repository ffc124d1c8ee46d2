//! Profiles of several hosts whose wall clocks are seconds apart and drift: each gets the ranks of its host, by the
//! clock of its host. The hosts are played (`NCCL_OTF2_TEST_CLOCK`), so the truth is known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use journal::clock::ClockPair;
use serde_json::Value;
use whole_plugin::machine::{RELEASE, tensorflow};
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;
use whole_plugin::synthetic::{self, Job, play};

use super::script;
use whole_plugin::regions::{Region, first_of_lane, row_of};

/// By how much each host's wall clock is ahead of this machine's, and what its clocks gain, in ppb.
const CLOCKS: [(i64, i64); 2] = [(0, 0), (10_000_000_000, 50_000)];

/// When a time of this machine's clock, which is that of host 0, was on a host's.
fn host_ns(host: usize, at_ns: u64) -> u64 {
    let now = ClockPair::read();
    let monotonic_ns = i128::from(at_ns) - i128::from(now.realtime_ns) + i128::from(now.monotonic_ns);
    let (ahead_ns, gain) = CLOCKS[host];
    let gained_ns = monotonic_ns * i128::from(gain) / 1_000_000_000;
    u64::try_from(i128::from(at_ns) + i128::from(ahead_ns) + gained_ns).expect("after 1970")
}

fn profile(python: &Path, file: &Path, host: usize, regions: &[Region], names: &[&str]) {
    let begin = regions.iter().map(|region| region.start_ns).min().expect("regions") - 1_000_000;
    let end = regions.iter().map(|region| region.end_ns).max().expect("regions") + 1_000_000;
    let times = [begin, end].map(|at_ns| PathBuf::from(host_ns(host, at_ns).to_string()));
    let mut words = vec![file.to_owned()];
    words.extend(times.into_iter().chain(names.iter().map(PathBuf::from)));
    let _nothing = script(python, "make_profile.py", &words);
}

fn into(scratch: &Scratch, words: &[&str], code: i32) -> String {
    let mut tool = scratch.tool(&["export", "--format", "xplane", "out", "--json", "-o"]);
    let ended = run(tool.args(words)).with_code(code);
    ended.stdout + &ended.stderr
}

#[test]
fn ranks_are_put_into_the_profile_of_their_host() {
    let Some(python) = tensorflow() else { return };
    let scratch = Scratch::new();
    let words = ["--procs", "2", "--threads", "1", "--rounds", "6", "--ops", "allreduce,sendrecv"];
    let words = [&words[..], &["--host-clocks", "0,0;10000000000,50000"]].concat();
    let Some(mut job) = scratch.run_nccl(RELEASE, &["--events", "standard,ProxyStep"], &words) else { return };
    let _ran = run(&mut job).with_code(0);
    let archive = scratch.archive();
    let regions = archive.regions();

    // One says its host by its name, the other by what is in it.
    let files = ["nccl-host-0.xplane.pb", "worker.xplane.pb"].map(|name| scratch.path().join(name));
    profile(&python, &files[0], 0, &regions, &[]);
    profile(&python, &files[1], 1, &regions, &["nccl-host-1.cluster.local"]);
    let names = files.each_ref().map(|file| file.to_str().expect("UTF-8"));
    let said: Value = serde_json::from_str(&into(&scratch, &["both", "--into", names[0], names[1]], 0)).expect("JSON");
    assert_eq!(said["left_out"], serde_json::json!([]), "{said}");
    let copies: Vec<PathBuf> = said["files"]
        .as_array()
        .expect("files")
        .iter()
        .map(|file| scratch.path().join(file.as_str().expect("a path")))
        .collect();
    let mut events = 0;
    let mut furthest_ns = 0;
    for (host, space) in script(&python, "read_xspace.py", &copies).as_array().expect("spaces").iter().enumerate() {
        assert_eq!(space["others"][1], serde_json::json!(["/host:CPU", 1]), "{space}");
        let planes = space["planes"].as_object().expect("planes");
        assert_eq!(planes.keys().collect::<Vec<_>>(), [&format!("/device:CUSTOM:NCCL rank {host}")]);
        let mut rows: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (line, seen) in planes.values().flat_map(|lines| lines.as_object().expect("lines")) {
            let starts = seen.as_array().expect("events").iter();
            let starts = starts.map(|event| event["start_ns"].as_u64().expect("a time"));
            rows.entry(first_of_lane(line)).or_default().extend(starts);
        }
        for (line, mut found) in rows {
            let mut wanted: Vec<u64> =
                regions.iter().filter(|region| row_of(region) == line).map(|region| region.start_ns).collect();
            wanted.sort_unstable();
            found.sort_unstable();
            assert_eq!(found.len(), wanted.len(), "{line}");
            events += found.len() as u64;
            for (found, wanted) in found.iter().zip(&wanted) {
                furthest_ns = furthest_ns.max(found.abs_diff(host_ns(host, *wanted)));
            }
        }
    }
    assert_eq!(said["events"], events);
    // Seconds would be wrong. Collectives, which last milliseconds on a busy machine, align the hosts.
    assert!(furthest_ns < 5_000_000, "{furthest_ns}");

    // Of one profile the other host's ranks are left out, and said.
    let said: Value = serde_json::from_str(&into(&scratch, &["one.xplane.pb", "--into", names[1]], 0)).expect("JSON");
    assert_eq!(said["left_out"][0]["reason"], "records of processes on hosts without a given profile", "{said}");

    // A profile that does not say its host is refused, unless ranks of one host are chosen.
    let nameless = scratch.path().join("nameless.xplane.pb");
    profile(&python, &nameless, 1, &regions, &[]);
    let nameless = nameless.to_str().expect("UTF-8");
    let said = into(&scratch, &["x.xplane.pb", "--into", nameless], 2);
    assert!(said.contains("which of the archive's 2 hosts (nccl-host-0, nccl-host-1)"), "{said}");
    let _one = into(&scratch, &["chosen.xplane.pb", "--rank", "1", "--into", nameless], 0);
}

/// An archive of several hosts that does not say what their clocks showed.
#[test]
fn hosts_whose_clocks_are_not_known_are_refused() {
    let Some(python) = tensorflow() else { return };
    let scratch = Scratch::new();
    let began_ns = 1_700_000_000_000_000_000;
    for (began, why) in [(None, "does not say when it was recorded"), (Some(began_ns), "(NCCL::CLOCK::ANCHORS)")] {
        let job = Job { instances: 5, error_ns: Some(Some(500)), began_ns: began, ..Job::healthy(3) };
        let _old = std::fs::remove_dir_all(scratch.out());
        let _anchor = synthetic::write(&scratch.out(), &job, &play(&job));
        let file = scratch.path().join("host1.xplane.pb");
        let words = [file.clone(), began_ns.to_string().into(), (began_ns + 1_000_000_000_u64).to_string().into()];
        let _nothing = script(&python, "make_profile.py", &words);
        let said = into(&scratch, &["x.xplane.pb", "--into", file.to_str().expect("UTF-8")], 2);
        assert!(said.contains(why), "{said}");
    }
}
