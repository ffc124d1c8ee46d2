//! What a tool learns by the double of libcupti of NCCL's launches: each kernel once, with its launch, in the order of
//! its stream.

use crate::rig::{Release, Run, compile, fake_cupti, releases};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// `cuLaunchKernel`, `cuLaunchKernelEx`, `cuGraphLaunch`
const LAUNCHES: [u32; 2] = [307, 652];
const GRAPH_LAUNCH: u32 = 514;

struct Kernel {
    correlation: u32,
    start_ns: u64,
    end_ns: u64,
    /// device and stream
    place: (u32, u32),
    graph: u32,
    node: u64,
    name: String,
}

/// What the tool wrote in one process.
#[derive(Default)]
struct Records {
    /// driver calls: number of the function by correlation id
    calls: BTreeMap<u32, u32>,
    kernels: Vec<Kernel>,
    copies: usize,
}

fn read(path: &Path) -> Records {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut all = Records::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        let small = |index: usize| u32::try_from(number(index)).expect("a small number");
        match words[0] {
            "call" if small(1) == 4 => {
                let before = all.calls.insert(small(3), small(2));
                assert_eq!(before, None, "two calls with one correlation id");
            }
            "call" => {}
            "copy" => all.copies += 1,
            "kernel" => all.kernels.push(Kernel {
                correlation: small(1),
                start_ns: number(2),
                end_ns: number(3),
                place: (small(4), small(5)),
                graph: small(6),
                node: number(7),
                name: words[8].to_owned(),
            }),
            other => panic!("{other}"),
        }
    }
    all
}

fn now_ns() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_nanos()
}

/// What each process of a run recorded.
fn run(release: &Release, options: &[&str], level: &str) -> Vec<Records> {
    let mut run = Run::new(release, options);
    let tool = run.dir().join("libtool.so");
    compile(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/cupti_tool.c"),
        &tool,
    );
    let cupti = run.dir().join("libcupti.so.13");
    std::os::unix::fs::symlink(fake_cupti(), &cupti).expect("a link");
    run.env("LD_PRELOAD", &tool);
    run.env("TOOL_CUPTI", &cupti);
    let out = run.dir().join("out");
    run.env("TOOL_OUT", &out);
    run.env("FAKECUPTI_API", level);
    let text = run.expect_status(0);
    let files = std::fs::read_dir(run.dir()).expect("the directory of the run");
    let paths = files.map(|file| file.expect("a file").path());
    let records: Vec<Records> = paths
        .filter(|path| path.with_extension("") == out)
        .map(|path| read(&path))
        .collect();
    assert!(!records.is_empty(), "{text}");
    records
}

fn check(records: &Records, began_ns: u128) {
    let mut last_end = BTreeMap::new();
    let mut launched = BTreeSet::new();
    let mut nodes = BTreeSet::new();
    let mut kernels: Vec<&Kernel> = records.kernels.iter().collect();
    kernels.sort_by_key(|kernel| kernel.start_ns);
    for kernel in kernels {
        assert!(kernel.name.contains("ncclDevKernel_"), "{}", kernel.name);
        assert!(u128::from(kernel.start_ns) > began_ns && u128::from(kernel.end_ns) < now_ns());
        assert!(kernel.start_ns <= kernel.end_ns);
        let last = last_end.insert(kernel.place, kernel.end_ns).unwrap_or(0);
        assert!(kernel.start_ns >= last, "two kernels at once on a stream");
        let call = records.calls.get(&kernel.correlation).copied();
        if kernel.graph == 0 {
            assert!(
                call.is_some_and(|call| LAUNCHES.contains(&call)),
                "{call:?}"
            );
            assert!(
                launched.insert(kernel.correlation),
                "two kernels of one launch"
            );
        } else {
            assert_eq!(call, Some(GRAPH_LAUNCH));
            nodes.insert((kernel.graph, kernel.node));
        }
    }
    // What was captured was launched once and ran in replays only.
    let launches = records
        .calls
        .values()
        .filter(|call| LAUNCHES.contains(*call));
    assert_eq!(launches.count(), launched.len() + nodes.len());
}

/// With the newest release by CUDA 13's interface, with the oldest by the first of CUDA 12.
#[test]
fn each_kernel_has_its_launch() {
    let all = releases();
    let levels = [(all.first(), "18"), (all.last(), "130500")];
    for (release, level) in levels {
        let Some(release) = release else {
            return;
        };
        let began_ns = now_ns();
        let options = [
            "--ops",
            "allreduce,sendrecv,graph",
            "--procs",
            "2",
            "--count",
            "1000",
        ];
        let processes = run(release, &options, level);
        assert_eq!(processes.len(), 2, "{}", release.name);
        for records in processes {
            check(&records, began_ns);
            assert!(records.copies > 0);
            let (plain, replayed): (Vec<_>, Vec<_>) =
                records.kernels.iter().partition(|kernel| kernel.graph == 0);
            assert!(
                !plain.is_empty() && !replayed.is_empty(),
                "{}",
                release.name
            );
        }
    }
}
